"""Files that commands write; an existing one is overwritten only with --force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.whole_file import write_whole


def force_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--force`, for each command that writes a file."""
    return click.option("--force", is_flag=True, help="Overwrite the file if it exists.")(command)


def write_new(path: Path, text: str, force: bool, is_secret: bool = False) -> None:
    """Writes a text as UTF-8; `is_secret`: readable by its owner only. An existing file stays as
    it is until the new one is complete.

    Raises ConfigError when the file exists, unless `force`, or cannot be written.
    """
    refuse_existing(path, force)
    try:
        write_whole(path, text.encode(), is_replacing=force, is_private=is_secret)
    except OSError as error:
        raise ConfigError(
            f"{click.format_filename(path)}: cannot be written: {error.strerror}; check its "
            "folder, its rights, and the room on the disk"
        ) from error


def refuse_existing(path: Path, force: bool) -> None:
    """Raises ConfigError when the file exists, unless `force`. For use before anything is asked or
    read."""
    if path.exists() and not force:
        raise ConfigError(
            f"{click.format_filename(path)}: the file exists already; name another one, or "
            "overwrite it with --force"
        )


def make_folder(folder: Path) -> None:
    """Makes a folder for new files, unless it is there; raises ConfigError when it cannot."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{click.format_filename(folder)}: the folder cannot be made: {error.strerror}; name "
            "one whose parent is there and yours to write"
        ) from error

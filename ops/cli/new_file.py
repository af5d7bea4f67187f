"""Files that commands write; an existing one is overwritten only with --force."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cdcbus.plugins.errors import ConfigError

OWNER_ONLY = 0o600


def force_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--force`, for each command that writes a file."""
    return click.option("--force", is_flag=True, help="Overwrite the file if it exists.")(command)


def write_new(path: Path, text: str, force: bool, is_secret: bool = False) -> None:
    """Writes a text as UTF-8; `is_secret`: readable by its owner only.

    Raises ConfigError when the file exists, unless `force`, or cannot be written.
    """
    refuse_existing(path, force)
    mode = "x"  # refuses a file that was created after the check
    if force:
        mode = "w"
    opener = None
    if is_secret:
        opener = _private
    try:
        with open(path, mode, encoding="utf-8", newline="\n", opener=opener) as file:
            if is_secret:
                # Opening an existing file keeps its permissions.
                path.chmod(OWNER_ONLY)
            file.write(text)
    except OSError as error:
        raise ConfigError(
            f"{click.format_filename(path)}: cannot be written: {error.strerror}; check its "
            "folder and rights"
        ) from error


def _private(path: str, flags: int) -> int:
    # With these rights from the beginning: after a chmod only, others could have opened it before.
    return os.open(path, flags, OWNER_ONLY)


def refuse_existing(path: Path, force: bool) -> None:
    """Raises ConfigError when the file exists, unless `force`. For use before anything is asked or
    read."""
    if path.exists() and not force:
        raise ConfigError(
            f"{click.format_filename(path)}: the file exists already; name another one, or "
            "overwrite it with --force"
        )

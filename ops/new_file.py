"""Files that commands make: what is there already is not overwritten unasked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cdcbus.plugins.errors import ConfigError


def force_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--force`, for each command that writes a file."""
    return click.option("--force", is_flag=True, help="Overwrite the file if it is there.")(command)


def write_new(path: Path, text: str, force: bool) -> None:
    """Writes a text as UTF-8. Raises ConfigError when there is such a file, unless `force`, or when it cannot be written."""
    refuse_existing(path, force)
    try:
        with path.open("w" if force else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{click.format_filename(path)}: cannot be written: {error.strerror}; check its folder and rights") from error


def refuse_existing(path: Path, force: bool) -> None:
    """Raises ConfigError when there is such a file, unless `force`: before anything is asked or read."""
    if path.exists() and not force:
        raise ConfigError(f"{click.format_filename(path)}: there is such a file already; name another one, or overwrite it with --force")

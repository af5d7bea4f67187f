"""The options by which commands take the bus-wide settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

_ZOOKEEPER = click.option(
    "--zookeeper",
    metavar="HOST:PORT[,...][/CHROOT]",
    help="Where positions are kept; else $CDCBUS_ZOOKEEPER, else `zookeeper` of the settings "
    "file, else 127.0.0.1:2181.",
)
_CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The settings file; else $CDCBUS_CONFIG, else cdcbus.properties in the current folder if "
    "it is there.",
)


def bus_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the command `--zookeeper` and `--config`; it gets the settings as argument `bus`.
    What is odd in the file goes to stderr."""

    @wraps(command)
    def with_settings(*args: Any, zookeeper: str | None, config: Path | None, **kwargs: Any) -> Any:
        from cdcbus.tasks.control.bus_settings import read_bus_settings

        bus = read_bus_settings({} if zookeeper is None else {"zookeeper": zookeeper}, config)
        for warning in bus.warnings:
            click.secho(f"warning: {warning}", fg="yellow", err=True)
        return command(*args, bus=bus, **kwargs)

    return _ZOOKEEPER(_CONFIG(with_settings))

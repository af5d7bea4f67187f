"""The command options for the bus-wide settings, and what commands tell the outermost group."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

EXIT_CODE: Final = "cdcbus.exit_code"
"""In the `meta` of a command's context: its exit code where it ends with an error, instead of 1."""
_ZOOKEEPER = click.option(
    "--zookeeper",
    metavar="HOST:PORT[,...][/CHROOT]",
    help="Where tasks and positions are stored; default: $CDCBUS_ZOOKEEPER, then `zookeeper` in "
    "the settings file, then 127.0.0.1:2181.",
)
_CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The settings file; default: $CDCBUS_CONFIG, then cdcbus.properties in the current "
    "folder if it exists.",
)
feed_option = click.option(
    "--source",
    metavar="FILE|ID",
    help="The fetch task that feeds the topics; default: the one found beside the task.",
)
tables_option = click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Only this table, by its name at the source or the target; repeatable.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
timeout_option = click.option(
    "--timeout",
    "timeout_seconds",
    type=float,
    default=60.0,
    show_default=True,
    help="How many seconds to wait.",
)


def bus_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--zookeeper` and `--config` to a command, which gets the settings as argument `bus`.
    Warnings about the settings file go to stderr."""

    @wraps(command)
    def with_settings(*args: Any, zookeeper: str | None, config: Path | None, **kwargs: Any) -> Any:
        from cdcbus.tasks.control.bus_settings import read_bus_settings

        given = {}
        if zookeeper is not None:
            given["zookeeper"] = zookeeper
        bus = read_bus_settings(given, config)
        for warning in bus.warnings:
            click.secho(f"warning: {warning}", fg="yellow", err=True)
        return command(*args, bus=bus, **kwargs)

    return _ZOOKEEPER(_CONFIG(with_settings))

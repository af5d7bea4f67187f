"""Turns the parameters of JDBC addresses into arguments of the Python drivers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.loaders.dialects.jdbc_address import Arguments, refused

LOCK_SECONDS: Final = 20
"""How long a statement waits for a lock, unless the address says otherwise: after that the log says
why, and the batch is repeated."""
IDLE_SECONDS: Final = 60
"""After this time without a statement the server rolls back a transaction: its process hangs."""
GONE_SECONDS: Final = 6
"""After this time without an answer a machine counts as down."""

Setting = Callable[[str, Arguments], None]
"""Handles a parameter: puts its value into the driver's arguments. Raises ValueError or KeyError
for a value that it cannot read."""


def argument(name: str, convert: Callable[[str], Any] = str) -> Setting:
    """Handles a parameter that the driver has under another name."""

    def put(value: str, arguments: Arguments) -> None:
        arguments[name] = convert(value)

    return put


def seconds(*names: str) -> Setting:
    """Handles a time limit in milliseconds that the driver takes in seconds, under these names;
    0 = no limit."""

    def put(value: str, arguments: Arguments) -> None:
        limit = -(-int(value) // 1000)  # rounded up: a limit below a second stays a limit
        if limit:
            arguments.update(dict.fromkeys(names, limit))

    return put


def ignore(value: str, arguments: Arguments) -> None:
    """Ignores a parameter that matters only to the Java driver."""


def ignored(names: str) -> dict[str, Setting]:
    """Ignores parameters that matter only to the Java driver."""
    return dict.fromkeys(names.split(), ignore)


def is_true(value: str) -> bool:
    """Whether a switch is on; one without a value is."""
    return value.lower() in ("true", "1", "yes", "")


def apply(
    parameters: Mapping[str, str],
    known: Mapping[str, Setting],
    arguments: Arguments,
    target: JdbcTarget,
) -> None:
    """Puts parameters into the arguments. Raises ConfigError for an unknown parameter, and for a
    value that cannot be read."""
    for name, value in parameters.items():
        if name not in known:
            raise refused(target, f"parameter {name} is not known; leave it out")
        try:
            known[name](value, arguments)
        except (ValueError, KeyError):
            raise refused(target, f"parameter {name} cannot be {value}") from None

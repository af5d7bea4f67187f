"""A database server as one writes it on a command line: `mysql://user:password@host:port/name`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

SOURCES: Final = {"mysql": "mysql", "mariadb": "mysql"}
TARGETS: Final = {**SOURCES, "postgresql": "postgresql", "postgres": "postgresql"}
PORTS: Final = {"mysql": 3306, "postgresql": 5432}
EXAMPLES: Final = {
    "source": "mysql://cdc@db1:3306/shop",
    "target": "postgresql://cdc@db2:5432/shop",
}


@dataclass(frozen=True, slots=True)
class Server:
    """How to log in. `password`: None where the address has none; `database`: empty likewise."""

    kind: str
    host: str
    port: int
    user: str
    password: str | None = field(default=None, repr=False)
    database: str = ""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def read_server(url: str, kinds: Mapping[str, str]) -> Server:
    """The server of an address; a leading `jdbc:` is ignored. Raises ValueError with a sentence,
    which never repeats the address: it may hold a password."""
    if url.startswith(("jdbc:oracle", "oracle:")):
        raise ValueError(
            "Oracle is not set up by this command, as its tables are made by hand: "
            "`cdcbus task new --route 'kafka->oracle'` writes the task, `cdcbus schema plan` "
            "prints the tables"
        )
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        # a password with / ? # [ ] that is not escaped, or a port that is not a number
        raise ValueError(
            "cannot be read; a password with one of / ? # [ ] @ : % in it is better left out of "
            "the address"
        ) from None
    if parts.scheme not in kinds or not host:
        beginnings = ", ".join(f"{kind}://" for kind in kinds)
        raise ValueError(f"begins with none of {beginnings}, and a host")
    if parts.query or parts.fragment:
        raise ValueError(
            "has something behind a ? or #: settings such as TLS are for the task file; and a "
            "password with one of these in it is better left out of the address"
        )
    kind = kinds[parts.scheme]
    password = parts.password
    if password is not None:
        password = unquote(password)
    return Server(
        kind,
        host,
        port or PORTS[kind],
        unquote(parts.username or ""),
        password,
        unquote(parts.path.strip("/")),
    )

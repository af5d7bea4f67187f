"""What the stack knows about a server: `java_servers` and `databases` fill it in, `stack` uses
it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cdcbus.consumer.jvm.maven import JarSet
from cdcbus.ops.stack.addresses import Plan
from cdcbus.ops.stack.processes import Account


class NotAnswering(Exception):
    """A server does not serve clients yet; the text says what shows that."""


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """Where one server of one stack lives, and whom it runs as (None: the caller)."""

    folder: Path
    plan: Plan
    account: Account | None

    @property
    def name(self) -> str:
        """The server's name."""
        return self.folder.name

    @property
    def data(self) -> Path:
        """The folder that holds all it stores."""
        return self.folder / "data"

    @property
    def port(self) -> int:
        """The port for clients."""
        return self.plan.ports[self.name]


@dataclass(frozen=True, slots=True)
class Server:
    """One of the servers of a stack.

    `prepare` makes the data and settings that are missing and returns the command line. `check`
    raises NotAnswering until the server serves clients. `jars`: None where cdcbus itself brings
    them. `ports` are the names of all ports it listens on. Databases refuse to run as root.
    `stop_signal` asks it to end soon.
    """

    name: str
    label: str
    jars: JarSet | None
    ports: tuple[str, ...]
    is_database: bool
    stop_signal: signal.Signals
    prepare: Callable[[ServerFolder], list[str]]
    check: Callable[[ServerFolder], None]

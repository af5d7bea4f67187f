"""Where the servers of a stack listen, and the file that remembers it: `<home>/stack.json`."""

import fcntl
import json
import os
import random
import secrets
import socket
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from cdcbus.plugins.errors import ConfigError

HOST = "127.0.0.1"
USER = "cdc"
DATABASE = "cdc"
PORT_NAMES = ("zookeeper", "kafka", "kafka-controller", "source", "mariadb", "postgresql")
SPARK_MASTER = "spark-master"
SPARK_WORKER = "spark-worker-"  # and a number

# Below the ports that operating systems give to outgoing connections: there a client that tries to
# reach a stopped server can be given that server's port, connect to itself, and keep the server
# from coming back.
_PORTS = range(20_000, 30_000)


def spark_worker(number: int) -> str:
    """The name of a worker."""
    return f"{SPARK_WORKER}{number}"


@dataclass(frozen=True, slots=True)
class Database:
    """How to log in to one database server."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str


@dataclass(frozen=True, slots=True)
class Addresses:
    """The servers of a stack; `zookeeper` and `kafka` are "127.0.0.1:PORT", `spark` is what
    `spark.master` takes, "" where the stack has no Spark."""

    zookeeper: str
    kafka: str
    source: Database
    mariadb: Database
    postgresql: Database
    spark: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is chosen once and remembered: a port for each of PORT_NAMES, and for each of Spark's
    servers where there are some; and the password of the database user."""

    ports: dict[str, int]
    password: str = field(repr=False)

    @classmethod
    def new(cls) -> "Plan":
        """Free ports and a new password."""
        plan = cls({}, secrets.token_hex(8))
        for name in PORT_NAMES:
            plan = plan.with_new_port(name)
        return plan

    def with_new_port(self, name: str) -> "Plan":
        """The same plan with another free port for `name`."""
        return replace(self, ports={**self.ports, name: free_port(self.ports.values())})

    @property
    def workers(self) -> int:
        """The number of Spark workers."""
        # Each worker has two ports.
        return sum(name.startswith(SPARK_WORKER) for name in self.ports) // 2

    @property
    def spark(self) -> str:
        """The address of Spark's master; "" without one."""
        if SPARK_MASTER not in self.ports:
            return ""
        return f"spark://{self.address(SPARK_MASTER)}"

    def with_spark(self, workers: int) -> "Plan":
        """The same plan with this number of Spark workers; existing ones keep their ports."""
        wanted = [*PORT_NAMES]
        if workers:
            for name in (SPARK_MASTER, *map(spark_worker, range(1, workers + 1))):
                wanted += [name, f"{name}-page"]  # each also serves a page about itself
        kept = {}
        for name in wanted:
            if name in self.ports:
                kept[name] = self.ports[name]
        plan = replace(self, ports=kept)
        for name in wanted:
            if name not in kept:
                plan = plan.with_new_port(name)
        return plan

    def taken(self, names: Iterable[str]) -> list[str]:
        """Those of `names` whose port is in use."""
        return [name for name in names if not is_free(self.ports[name])]

    def address(self, name: str) -> str:
        """ "127.0.0.1:PORT" """
        return f"{HOST}:{self.ports[name]}"

    def database(self, name: str) -> Database:
        """How to log in to the database server `name`."""
        return Database(HOST, self.ports[name], USER, self.password, DATABASE)

    def addresses(self) -> Addresses:
        """All servers."""
        return Addresses(
            self.address("zookeeper"),
            self.address("kafka"),
            self.database("source"),
            self.database("mariadb"),
            self.database("postgresql"),
            self.spark,
        )


def plan_file(home: Path) -> Path:
    """The file that remembers the plan of the stack in `home`."""
    return home / "stack.json"


def load(home: Path) -> Plan | None:
    """The remembered plan; None when there is none yet. Raises ConfigError when the file cannot
    be understood."""
    file = plan_file(home)
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        ports = {name: int(port) for name, port in stored["ports"].items()}
        if not ports.keys() >= {*PORT_NAMES}:
            raise ValueError("a port is missing")
        return Plan(ports, str(stored["password"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise ConfigError(
            f"{file} belongs to another user: choose another folder with --home"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{file} is damaged: `cdcbus stack down --purge`, or restore it from a backup"
        ) from error


def save(home: Path, plan: Plan) -> None:
    """Remembers the plan, whole or not at all, readable for the owner only, as it holds a
    password."""
    part = plan_file(home).with_suffix(".part")
    # An existing file would keep its rights.
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        json.dump({"ports": plan.ports, "password": plan.password}, file, indent=2)
    part.replace(plan_file(home))


def is_free(port: int) -> bool:
    """Whether a server could listen on it now."""
    with socket.socket() as probe:
        # as servers do: closed connections do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(others: Collection[int]) -> int:
    """A free port that is not among `others`. No other process of this user gets it while this one
    lives: its server may take long to be there."""
    # In random order, as most servers of others have ended long ago.
    candidates = random.sample(_PORTS, len(_PORTS))
    for port in candidates:
        if port not in others and is_free(port) and _keep(port):
            return port
    raise ConfigError(
        f"no free port between {_PORTS.start} and {_PORTS.stop}: stop some of the servers there"
    )


def _keep(port: int) -> bool:
    """Keeps the port for this process, by a lock of a byte in a file. Returns False where another
    process has it."""
    try:
        fcntl.lockf(_kept_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    return True


@cache
def _kept_ports() -> int:
    # Open until the process ends: closing it would give up all of its locks.
    path = Path(tempfile.gettempdir()) / f"cdcbus-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

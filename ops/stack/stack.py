"""The embedded stack: a real ZooKeeper, a real Kafka, a source and two target databases on this
machine.

Without Docker and without root.
"""

import fcntl
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from cdcbus.consumer.jvm.maven import fetch, java
from cdcbus.ops.stack import addresses, processes
from cdcbus.ops.stack.addresses import SPARK_WORKER, Addresses, Plan
from cdcbus.ops.stack.databases import MARIADB, POSTGRESQL, SOURCE
from cdcbus.ops.stack.java_servers import KAFKA, ZOOKEEPER
from cdcbus.ops.stack.parallel import side_by_side
from cdcbus.ops.stack.server import NotAnswering, Server, ServerFolder
from cdcbus.ops.stack.spark_servers import spark_servers
from cdcbus.plugins.errors import CdcError, ConfigError

if TYPE_CHECKING:
    from rich.console import Console

SERVERS = (ZOOKEEPER, KAFKA, SOURCE, MARIADB, POSTGRESQL)

# Where the demo keeps its task files and logs.
DEMO = "demo"
_START_SECONDS = 120
_STOP_SECONDS = 20


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as it is now: `pid` is None when it does not run, `address` is "" before the
    first `up`."""

    name: str
    label: str
    running: bool
    pid: int | None
    address: str


def default_home() -> Path:
    """`$CDCBUS_STACK_HOME`, or a folder of the user's; for root one that the database servers' user
    can enter."""
    if chosen := os.environ.get("CDCBUS_STACK_HOME"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/cdcbus/stack")
    return Path.home() / ".local/share/cdcbus/stack"


def servers_of(plan: Plan | None) -> tuple[Server, ...]:
    """The servers of a stack: SERVERS, and those of Spark if it has some."""
    if plan is None:
        return SERVERS
    return SERVERS + spark_servers(plan.workers)


def up(home: Path, console: "Console", *, spark: int | None = None) -> Addresses:
    """Starts the servers that do not run and returns when every server answers clients. Reports on
    `console`. `spark`: the number of Spark workers from now on, besides their master; None: as many
    as it has.

    A second call changes nothing; a concurrent one waits. Raises CdcError with a sentence for each
    server that does not start. The others keep running, and the next `up` or `down` continues from
    there.
    """
    _check_machine()
    java()  # before a database is started in vain
    home = home.absolute()
    # With a stricter umask the databases' account could not enter their folders.
    with processes.umask(0o022), _locked(home, console):
        if account := processes.unprivileged():
            account.check_can_enter(home)
        if spark is not None:
            _change_spark(home, spark)
        all_servers = servers_of(addresses.load(home))
        stopped = []
        jars = []
        for each in all_servers:
            if processes.is_running(home / each.name):
                continue
            stopped.append(each)
            if each.jars is not None:
                jars.append(each.jars)
        fetch(jars, console)
        plan = _plan(home, stopped, console)
        jobs = {}
        # Also those that run already: they may not answer yet.
        for each in all_servers:
            jobs[each.label] = _starting(each, _place(home, each, plan))
        side_by_side(jobs, "starting", console)
        return plan.addresses()


def down(home: Path, *, purge: bool, console: "Console") -> None:
    """Stops all servers; returns when no process is left, and with `purge` no file of theirs
    either."""
    if not home.is_dir():
        _say(console, f"there is no stack in {home}")
        return
    with _locked(home, console):
        # also of a home whose plan is missing
        everything = SERVERS + spark_servers(len([*home.glob(f"{SPARK_WORKER}*")]))
        jobs = {}
        for server in everything:
            if processes.is_running(home / server.name):
                jobs[server.label] = _stopping(server, home / server.name)
        if jobs:
            side_by_side(jobs, "stopping", console)
        else:
            _say(console, "no server runs")
        if purge:
            _purge(home, everything)
            _say(console, f"removed what was stored in {home}")


def status(home: Path) -> list[ServerStatus]:
    """The current state of all servers, from the operating system; the servers are not asked."""
    plan = addresses.load(home)
    result = []
    for server in servers_of(plan):
        pid = processes.pid(home / server.name)
        address = ""
        if plan is not None:
            address = plan.address(server.name)
        result.append(ServerStatus(server.name, server.label, pid is not None, pid, address))
    return result


def has_running(home: Path) -> bool:
    """Whether one of its servers runs."""
    return any(server.running for server in status(home))


def kill(home: Path, name: str) -> None:
    """SIGKILLs one server and returns when it has ended; `up` brings it back on the same port with
    its data."""
    names = _names(servers_of(addresses.load(home)))
    if name not in names:
        raise ConfigError(f"there is no server {name}: the servers are {', '.join(names)}")
    processes.kill(home / name)


def _check_machine() -> None:
    if sys.platform != "linux" or platform.machine() not in {"x86_64", "amd64"}:
        raise ConfigError(
            "the embedded stack has programs for Linux on x86_64 only, and this is "
            f"{platform.system()} on {platform.machine()}: use `docker compose up`, or servers of "
            "your own"
        )


@contextmanager
def _locked(home: Path, console: "Console") -> Iterator[None]:
    """One `up` or `down` at a time per home, which waits for another; the lock is on the folder
    itself, so that purging leaves nothing."""
    while True:
        try:
            home.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(home, os.O_RDONLY)
        except OSError as error:
            raise ConfigError(
                f"cannot use {home} ({error.strerror}): choose another folder with --home"
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say(console, f"waiting for another command that starts or stops servers in {home}")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Commands that `processes.run` starts hold the lock, too: after a kill the next caller
            # waits.
            os.set_inheritable(descriptor, True)
            if home.exists() and os.path.samestat(os.fstat(descriptor), home.stat()):
                yield
                return
            # While this process waited, `down --purge` removed the folder: again, with a new one.
        finally:
            os.close(descriptor)


def _plan(home: Path, stopped: Sequence[Server], console: "Console") -> Plan:
    """The remembered ports; a new one, which it announces, where a server has to start and its
    port is taken."""
    plan = remembered = addresses.load(home)
    if plan is None:
        if len(stopped) < len(SERVERS):
            lost = addresses.plan_file(home)
            raise ConfigError(
                f"servers run, but {lost}, which says where, is missing: run `cdcbus stack down` "
                "first"
            )
        plan = Plan.new()
    ports: list[str] = []
    for server in stopped:
        ports += server.ports
    for name in plan.taken(ports):
        before = plan.ports[name]
        plan = plan.with_new_port(name)
        new = plan.ports[name]
        _say(console, f"port {before} of {name} is taken by another process: it gets {new}")
    if plan != remembered:
        addresses.save(home, plan)
    return plan


def _change_spark(home: Path, workers: int) -> None:
    """Remembers the number of workers; ends surplus ones."""
    before = addresses.load(home)
    if before is None and any(processes.is_running(home / each.name) for each in SERVERS):
        return  # `_plan` says what is wrong
    plan = (before or Plan.new()).with_spark(workers)
    kept = _names(servers_of(plan))
    # Workers before their master.
    for server in reversed(servers_of(before)):
        if server.name not in kept:
            processes.stop(home / server.name, server.stop_signal, _STOP_SECONDS)
            shutil.rmtree(home / server.name, ignore_errors=True)
    if plan != before:
        addresses.save(home, plan)


def _names(servers: Iterable[Server]) -> list[str]:
    return [server.name for server in servers]


def _place(home: Path, server: Server, plan: Plan) -> ServerFolder:
    account = None
    if server.is_database:
        account = processes.unprivileged()
    return ServerFolder(home / server.name, plan, account)


def _starting(server: Server, place: ServerFolder) -> Callable[[Event], str]:
    def start(cancelled: Event) -> str:
        address = place.plan.address(server.name)
        # Also waits for a server that an interrupted `up` has started.
        if _serves(server, place, cancelled):
            return f"runs already at {address}"
        place.folder.mkdir(exist_ok=True)
        command = server.prepare(place)
        # Preparing takes a while, and nobody would wait for the server any more.
        if cancelled.is_set():
            raise CdcError(f"{server.label} was not started")
        processes.start(place.folder, command, place.account)
        if not _serves(server, place, cancelled):
            log = processes.log_file(place.folder)
            said = processes.relevant_line(log.read_text(errors="replace"))
            raise CdcError(f"{server.label} ended while starting: {said}; its log: {log}")
        return f"answers at {address}"

    return start


def _stopping(server: Server, folder: Path) -> Callable[[Event], str]:
    def stop(_: Event) -> str:
        processes.stop(folder, server.stop_signal, _STOP_SECONDS)
        return "stopped"

    return stop


def _serves(server: Server, place: ServerFolder, cancelled: Event) -> bool:
    """Waits until the server serves clients; False when it does not run, or ends.

    Raises CdcError when it runs and answers nothing for a long time.
    """
    deadline = time.monotonic() + _START_SECONDS
    while processes.is_running(place.folder):
        try:
            server.check(place)
            return True
        except NotAnswering as error:
            if time.monotonic() > deadline:
                late = f"{server.label} does not answer after {_START_SECONDS} s ({error})"
                raise CdcError(f"{late}; its log: {processes.log_file(place.folder)}") from error
        if cancelled.wait(0.1):
            raise CdcError(f"{server.label} was not waited for")
    return False


def _say(console: "Console", sentence: str) -> None:
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def _purge(home: Path, servers: Sequence[Server]) -> None:
    """Removes only what `up` and the demo create: the folder may hold other files."""
    for name in [*_names(servers), DEMO]:
        if (home / name).exists():
            shutil.rmtree(home / name)
    addresses.plan_file(home).unlink(missing_ok=True)
    if not any(home.iterdir()):
        home.rmdir()

"""The real servers that integration tests use: one embedded stack per test session."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pymysql
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from hypothesis import HealthCheck, settings
from pymysql.cursors import Cursor
from rich.console import Console

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import down, up
from cdcbus.plugins.mysql.connection import MysqlConnection
from tests.support.changes.shop import Shop, open_shop
from tests.support.changes.two_tables import TwoTables
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer
from tests.support.topics.new_topics import create_topics

# A busy machine is no reason to fail.
settings.register_profile("cdcbus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cdcbus")

PRODUCT = re.compile(rf"{Path(__file__).parents[1]}/(?!tests/|\.venv/)")
STACK_HOME = "CDCBUS_TEST_STACK_HOME"  # use this stack, and leave it running
SOURCE = "CDCBUS_TEST_SOURCE"  # mysql://user:password@host:port in place of the stack's source
# set: a test of which that source does not know a statement or a variable is skipped
OLD_SOURCE = "CDCBUS_TEST_OLD_SOURCE"
# the same of a MySQL 8 or later, for tests of targets; its user may make others
MYSQL_TARGET = "CDCBUS_TEST_MYSQL"
LOG_LINES = 15


# to the server: syntax, a variable, a GTID with a tag, a type
_NOT_KNOWN = (1064, 1193, 1774, 4161)


def pytest_configure() -> None:
    """Lets processes of tests be interrupted: a script's shell ignores Ctrl-C in what it starts in
    the background, and so would they."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows, of a test that failed, the end of each log that it left. Skips what an old source
    refuses of a test's own SQL; SQL of the product counts as ever."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and folder is not None:
        for log in sorted(folder.glob("**/*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            report.sections.append((f"the end of {log.name}", "\n".join(lines[-LOG_LINES:])))
    if (
        os.environ.get(OLD_SOURCE)
        and call.excinfo
        and isinstance(call.excinfo.value, pymysql.MySQLError)
    ):
        is_of_test = not any(PRODUCT.match(str(entry.path)) for entry in call.excinfo.traceback)
        if call.excinfo.value.args[0] in _NOT_KNOWN and is_of_test:
            report.outcome = "skipped"
            report.longrepr = (
                str(item.path),
                0,
                f"Skipped: an old server: {call.excinfo.value.args[1]}",
            )
    return report


def named(given: str) -> Database:
    """mysql://user:password@host:port"""
    url = urlsplit(given)
    return Database(
        url.hostname or "127.0.0.1", url.port or 3306, url.username or "", url.password or "", ""
    )


@contextmanager
def _own_home() -> Iterator[Path]:
    """The folder of a stack, which is gone at the end with all that runs in it."""
    home = Path(tempfile.mkdtemp(prefix="cdcbus-test-"))
    home.chmod(0o755)
    try:
        yield home
    finally:
        down(home, purge=True, console=Console(quiet=True))
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def stack_home() -> Iterator[Path]:
    """The folder of a stack that lives as long as the session; not below pytest's own, which the
    databases' user may not enter."""
    if given := os.environ.get(STACK_HOME):
        yield Path(given)
        return
    with _own_home() as home:
        yield home


@pytest.fixture(scope="session")
def killable_home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of a stack whose servers may be killed; after that they are to be started
    again."""
    if not os.environ.get(STACK_HOME):
        yield request.getfixturevalue("stack_home")
        return
    with _own_home() as home:
        yield home


@pytest.fixture(scope="session")
def stack(stack_home: Path) -> Addresses:
    return up(stack_home, Console(quiet=True))


@pytest.fixture(scope="session")
def zookeeper(stack: Addresses) -> str:
    return stack.zookeeper


@pytest.fixture(scope="session")
def kafka(stack: Addresses) -> str:
    return stack.kafka


@pytest.fixture(scope="session")
def source(request: pytest.FixtureRequest) -> Database:
    """The server whose binlog is read."""
    if given := os.environ.get(SOURCE):
        return named(given)
    stack: Addresses = request.getfixturevalue("stack")
    return stack.source


@pytest.fixture(scope="session")
def mariadb(stack: Addresses) -> Database:
    return stack.mariadb


@pytest.fixture(scope="session")
def mysql_9() -> Database:
    """A MySQL as a target, where one is at hand; it may be the source's, too."""
    given = os.environ.get(MYSQL_TARGET)
    if not given:
        pytest.skip(f"the stack has no MySQL: {MYSQL_TARGET} names one")
    return named(given)


@pytest.fixture(scope="session")
def postgresql(stack: Addresses) -> Database:
    return stack.postgresql


@pytest.fixture
def name() -> str:
    """A name that nothing else has: for a schema, a topic, a task."""
    return "t" + uuid.uuid4().hex[:10]


@pytest.fixture
def postgresql_server(postgresql: Database, name: str) -> Iterator[PostgresqlServer]:
    """An empty schema of PostgreSQL, called `name`."""
    server = PostgresqlServer(postgresql, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["mariadb", "mysql_9"])
def mysql_server(request: pytest.FixtureRequest, name: str) -> Iterator[MysqlServer]:
    """The same of MariaDB, and of MySQL where one is at hand."""
    server = MysqlServer(request.getfixturevalue(request.param), name)
    server.execute("CREATE DATABASE {schema}")
    yield server
    server.execute("DROP DATABASE {schema}")


@pytest.fixture
def source_cursor(source: Database, name: str) -> Iterator[Cursor]:
    """A cursor on the source, in an empty schema called `name`; autocommit."""
    connection = MysqlConnection(
        host=source.host,
        port=source.port,
        user=source.user,
        password=source.password,
        charset="utf8mb4",
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {name}")
        try:
            yield cursor
        finally:
            cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def make_topic(kafka: str) -> Callable[..., str]:
    """Creates a topic: make_topic(name, partitions=1). It keeps its records: some tests write old
    ones, which the broker would delete when it looks for such, every five minutes."""
    admin = AdminClient({"bootstrap.servers": kafka})

    def make(topic: str, partitions: int = 1) -> str:
        create_topics(admin, NewTopic(topic, partitions, 1, config={"retention.ms": "-1"}))
        return topic

    return make


@pytest.fixture
def shop(
    request: pytest.FixtureRequest,
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Shop]:
    """An empty schema and a topic of the test's name, with as many partitions as the module's
    PARTITIONS says, two unless it does."""
    make_topic(name, getattr(request.module, "PARTITIONS", 2))
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        yield shop


@pytest.fixture
def tables(shop: Shop) -> TwoTables:
    return TwoTables.make(shop)

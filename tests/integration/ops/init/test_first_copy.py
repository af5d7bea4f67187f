"""From a clone to own rows in the target: the README's commands, as a script takes them from the
page, with the stack's servers as somebody's own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import split

import psycopg
import pytest
from psycopg import sql
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[4]
FOR_SCRIPTS = re.compile(r"^For scripts.*?```sh\n(.*?)```", re.MULTILINE | re.DOTALL)
LIMIT_SECONDS = 300


def readme_lines() -> list[str]:
    (block,) = FOR_SCRIPTS.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    return [line.partition("#")[0].strip() for line in block.splitlines()]


def own(line: str, name: str, stack: Addresses, target: str) -> str:
    """The line with somebody's own names and servers in place of the page's."""
    source, postgresql = stack.source, stack.postgresql
    for theirs, ours in (
        ("SOURCE_PASSWORD=...", f"SOURCE_PASSWORD={source.password}"),
        ("TARGET_PASSWORD=...", f"TARGET_PASSWORD={postgresql.password}"),
        ("127.0.0.1:2181", stack.zookeeper),
        ("127.0.0.1:9092", stack.kafka),
        ("cdc@127.0.0.1:3306/shop", f"{source.user}@{source.host}:{source.port}/{name}"),
        (
            "cdc@127.0.0.1:5432/copy",
            f"{postgresql.user}@{postgresql.host}:{postgresql.port}/{target}",
        ),
        ("shop-to-", f"{name}-to-"),
    ):
        line = line.replace(theirs, ours)
    return line


@pytest.fixture
def target(name: str, stack: Addresses) -> Iterator[psycopg.Connection]:
    """An empty database of the test's name in PostgreSQL."""
    server = stack.postgresql
    login = f"postgresql://{server.user}:{server.password}@{server.host}:{server.port}"
    with psycopg.connect(f"{login}/{server.database}", autocommit=True) as own_database:
        own_database.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            with psycopg.connect(f"{login}/{name}", autocommit=True) as connection:
                yield connection
        finally:
            own_database.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


@contextmanager
def running(words: list[str], folder: Path, environ: Mapping[str, str]) -> Iterator[None]:
    with (folder / "node.log").open("wb") as log:
        node = subprocess.Popen(words, cwd=folder, env=environ, stdout=log, stderr=log)
        try:
            yield
            assert node.poll() is None, (folder / "node.log").read_text(encoding="utf-8")
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(LIMIT_SECONDS)


def test_own_rows_are_in_the_target_after_the_readmes_commands(
    name: str,
    stack: Addresses,
    source_cursor: Cursor,
    target: psycopg.Connection,
    tmp_path: Path,
) -> None:
    """Some 20 to 30 s, as it starts six processes of Python one after the other, as a reader would; what
    it leaves out of the five minutes is `make install`, which takes one."""
    source_cursor.execute("CREATE TABLE visitors (id INT PRIMARY KEY, name VARCHAR(20), `at` DATE)")
    source_cursor.execute("INSERT INTO visitors VALUES (1, 'Ada', '1843-07-10'), (2, NULL, NULL)")
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "CDCBUS_HTTP_BIND": f"127.0.0.1:{free_port(())}",
        "CDCBUS_NODE_ID": name,
        "CDCBUS_NODE_LOGDIRECTORY": str(tmp_path / "logs"),
    }
    exports, init, imports, node, start, verify = readme_lines()
    assert exports.startswith("export ")
    environ |= dict(
        word.split("=", 1) for word in split(own(exports, name, stack, name).removeprefix("export"))
    )

    def call(line: str) -> str:
        done = subprocess.run(
            split(own(line, name, stack, name)),
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def copied() -> list[tuple[object, ...]]:
        return target.execute("SELECT id, name, at::text FROM visitors ORDER BY id").fetchall()

    said = call(init)
    assert copied() == [(1, "Ada", "1843-07-10"), (2, None, None)], said
    assert "public.visitors: equal, 2 rows" in said
    assert stack.source.password not in said
    assert not list(tmp_path.glob("*.passwords")), "the environment has them"
    call(imports)
    with running(split(node), tmp_path, environ):
        call(start)
        source_cursor.execute("UPDATE visitors SET name = 'Charles' WHERE id = 2")
        wait_until(lambda: copied()[1][1] == "Charles", "the change at the target")
        assert "public.visitors: equal, 2 rows" in call(verify)

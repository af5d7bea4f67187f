"""Engines without a server: what the driver is given, and how Oracle's itself reads it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import oracledb
import pymysql
import pytest
from sqlalchemy import text

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError, TargetUnavailable
from cdcbus.plugins.loaders import engine, open_target
from cdcbus.plugins.loaders.engine import open_engine
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.mysql import connection as mysql
from tests.support.servers.secure_servers import Authority


def target(address: str) -> JdbcTarget:
    return JdbcTarget(f"jdbc:oracle:thin:{address}", "u", "pw", "t1", max_wait_seconds=2.5)


class Recorder:
    """A driver's `connect` that answers as a server of version 19 does."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.executed: list[str] = []

    def __call__(self, **given: Any) -> Any:
        self.given = given
        cursor = MagicMock()
        cursor.__enter__.return_value = cursor
        cursor.fetchone.return_value = ("1.1",)  # SQLAlchemy asks how numbers are spelled
        cursor.execute.side_effect = lambda sql, *_: self.executed.append(sql)
        connection = MagicMock(version="19.3.0.0.0", autocommit=False, max_identifier_length=128)
        connection.cursor.return_value = cursor
        return connection


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(oracledb, "connect", recorder)
    return recorder


def run(address: str) -> None:
    opened = open_engine(target(address), read_url(target(address)))
    with opened.connect() as connection:
        connection.execute(text("SELECT 1 FROM dual"))
    opened.dispose()


def test_oracle_is_reached_with_oracledb(recorder: Recorder) -> None:
    run("@//h:1522/svc")
    login = {"user": "u", "password": "pw", "dsn": "h:1522/svc"}
    assert (
        recorder.given.items()
        >= ({**login, "tcp_connect_timeout": 3, "program": "cdcbus-t1"}).items()
    )
    assert recorder.executed[-1] == "SELECT 1 FROM dual"
    assert "ALTER SESSION SET ISOLATION_LEVEL=READ COMMITTED" in recorder.executed


def as_the_driver_reads(address: str) -> oracledb.ConnectParams:
    arguments = dict(read_url(target(address)).arguments)
    params: oracledb.ConnectParams = oracledb.ConnectParams(
        **{name: value for name, value in arguments.items() if name != "dsn"}
    )
    params.parse_connect_string(arguments["dsn"])
    return params


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("@h:1522:ORCL", {"host": "h", "port": 1522, "sid": "ORCL", "service_name": None}),
        ("@//h:1522:ORCL", {"host": "h", "port": 1522, "sid": "ORCL"}),
        (
            "@//h:1522/shop.example",
            {
                "host": "h",
                "port": 1522,
                "service_name": "shop.example",
                "sid": None,
                "protocol": "tcp",
            },
        ),
        ("@h/shop", {"host": "h", "port": 1521, "service_name": "shop"}),
        (
            "@h:1/shop:dedicated/one",
            {"service_name": "shop", "server_type": "dedicated", "instance_name": "one"},
        ),
        (
            "@h1:1521,h2:1522/shop",
            {"host": ["h1", "h2"], "port": [1521, 1522], "service_name": "shop"},
        ),
        ("@//[::1]:1522/shop", {"host": "::1", "port": 1522, "service_name": "shop"}),
        ("@[::1]:1522:ORCL", {"host": "::1", "port": 1522, "sid": "ORCL"}),
        (
            "@tcps://h:2484/shop?wallet_location=/w",
            {"protocol": "tcps", "port": 2484, "wallet_location": "/w"},
        ),
        (
            "@(DESCRIPTION=(CONNECT_TIMEOUT=7)(ADDRESS=(PROTOCOL=TCP)(HOST=h)(PORT=1522))(CONNECT_DATA=(SERVICE_NAME=shop)))",
            {"host": "h", "port": 1522, "service_name": "shop"},
        ),
        (
            "@h/shop?oracle.net.CONNECT_TIMEOUT=7500&retry_count=3&retry_delay=2",
            {"tcp_connect_timeout": 8, "retry_count": 3, "retry_delay": 2},
        ),
        (
            "@h/shop?transport_connect_timeout=4&expire_time=5&sdu=16384",
            {"tcp_connect_timeout": 4, "expire_time": 5, "sdu": 16384},
        ),
        (
            "@h/shop?oracle.net.ssl_server_dn_match=off&oracle.net.wallet_location=file:/w",
            {"ssl_server_dn_match": False, "wallet_location": "/w"},
        ),
        (
            "@h/shop?v$session.program=porter&oracle.jdbc.editionName=e&oracle.jdbc.timezoneAsRegion=false",
            {"program": "porter", "edition": "e"},
        ),
        (
            "@h/shop",
            {"user": "u", "tcp_connect_timeout": 3, "program": "cdcbus-t1", "expire_time": 1},
        ),
    ],
)
def test_the_driver_reads_what_the_address_says(address: str, expected: dict[str, object]) -> None:
    params = as_the_driver_reads(address)
    assert {name: getattr(params, name) for name in expected} == expected


@pytest.mark.parametrize("by_parameter", [True, False])
def test_a_tns_name_is_looked_up_in_tns_admin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_parameter: bool
) -> None:
    entry = "SHOP = (DESCRIPTION=(ADDRESS=(PROTOCOL=tcp)(HOST=db)(PORT=1599))(CONNECT_DATA=(SERVICE_NAME=s)))"
    (tmp_path / "tnsnames.ora").write_text(entry)
    if not by_parameter:
        # which it takes from the variable when it is imported
        monkeypatch.setattr(oracledb.defaults, "config_dir", str(tmp_path))
    params = as_the_driver_reads(f"@SHOP?TNS_ADMIN={tmp_path}" if by_parameter else "@SHOP")
    assert (params.host, params.port, params.service_name) == ("db", 1599, "s")


@pytest.fixture
def only_cx_oracle(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    module = ModuleType("cx_Oracle")
    module.__dict__.update(
        {name: value for name, value in vars(oracledb).items() if not name.startswith("__")},
        version="8.3.0",
    )
    monkeypatch.setitem(sys.modules, "cx_Oracle", module)
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    return recorder


def test_cx_oracle_is_used_where_only_that_is_installed(only_cx_oracle: Recorder) -> None:
    run("@//h:1522/svc")
    assert {name: only_cx_oracle.given[name] for name in ("user", "password", "dsn")} == {
        "user": "u",
        "password": "pw",
        "dsn": "h:1522/svc",
    }
    assert "tcp_connect_timeout" not in only_cx_oracle.given


def test_what_cx_oracle_cannot_be_given_is_refused(only_cx_oracle: Recorder) -> None:
    with pytest.raises(
        ConfigError,
        match=r"^oracle:SHOP: cx_Oracle cannot be given config_dir, retry_count; install "
        r"oracledb, or leave",
    ):
        run("@SHOP?TNS_ADMIN=/etc&retry_count=2")


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_target_that_cannot_be_reached_says_what_to_check(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    database = open_target(JdbcTarget(f"jdbc:{kind}://{address}/shop", "u", "pw", "t1"))
    with pytest.raises(TargetUnavailable) as raised:
        database.end_other_sessions()
    sentence = str(raised.value)
    assert f"{address}/shop, connection: " in sentence
    assert sentence.endswith("; check its address, and that it runs")


def test_each_connection_to_mysql_takes_the_certificates_that_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that takes only the renewed ones would refuse those of the start for good."""
    contexts: list[object] = []

    def connect(**given: Any) -> None:
        contexts.append(given["ssl"])
        raise pymysql.OperationalError(2003, "no server")

    monkeypatch.setattr(mysql, "MysqlConnection", connect)
    ca = Authority.new(tmp_path, "ca").ca
    address = f"jdbc:mysql://127.0.0.1:1/shop?sslMode=VERIFY_CA&serverSslCert={ca}"
    database = open_target(JdbcTarget(address, "u", "pw", "t1", connect_retries=0))

    def context() -> object:
        with pytest.raises(TargetUnavailable), database.connected("connection"):
            pass
        return contexts[-1]

    first, text = context(), ca.read_bytes()
    assert context() is first
    ca.write_bytes(text[:100])
    os.utime(ca, ns=(1, 1))
    assert context() is first
    assert context() is first
    assert len(caplog.messages) == 1
    assert "connections are made with the certificates of before" in caplog.messages[0]
    ca.write_bytes(text)
    os.utime(ca, ns=(2, 2))
    assert context() is not first
    database.engine.dispose()


def test_a_target_is_waited_for_while_its_certificates_are_written_anew(tmp_path: Path) -> None:
    """As where a task begins again after its locks were lost; unless they were never usable."""
    ca = Authority.new(tmp_path, "ca").ca
    text = ca.read_bytes()
    address = f"jdbc:mysql://127.0.0.1:1/shop?sslMode=VERIFY_CA&serverSslCert={ca}"
    at = JdbcTarget(address, "u", "pw", "t1")
    ca.write_bytes(text[:100])
    with pytest.raises(ConfigError, match="no file of CA certificates in PEM form"):
        open_target(at)
    ca.write_bytes(text)
    open_target(at).engine.dispose()
    ca.write_bytes(text[:100])
    os.utime(ca, ns=(1, 1))
    with pytest.raises(TargetUnavailable, match="no file of CA certificates in PEM form"):
        open_target(at)

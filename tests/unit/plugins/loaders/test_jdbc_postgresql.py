"""JDBC addresses of PostgreSQL as people have them in their task files."""

from typing import Any

import pytest

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.loaders.jdbc_url import read_url


def arguments(url: str) -> dict[str, Any]:
    return dict(read_url(JdbcTarget(url, "u", "pw", "t1")).arguments)


def test_a_postgresql_address_becomes_the_driver_s_arguments() -> None:
    assert arguments("jdbc:postgresql://db.example:6432/shop") == {
        "host": "db.example",
        "port": "6432",
        "dbname": "shop",
        "user": "u",
        "password": "pw",
        "connect_timeout": 10,
        "client_encoding": "utf8",
        "application_name": "cdcbus t1",
        "keepalives_idle": 3,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": 6000,
    }


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("currentSchema=shop,public", {"search_path": "shop,public"}),
        ("currentSchema=a b", {"search_path": "a b"}),
        ("options=-c%20lock_timeout=5s", {"lock_timeout": "5s"}),
        ("options=-c%20lock_timeout=5s%20--work-mem=9MB%20-csearch_path=a%5C%20b", {
            "lock_timeout": "5s", "work_mem": "9MB", "search_path": "a b"
        }),
        ("options=-c%20TimeZone=Asia/Tokyo", {"TimeZone": "UTC"}),
    ],
)  # fmt: skip
def test_settings_of_postgresql_are_set_once_it_is_there(
    parameters: str, expected: dict[str, str]
) -> None:
    plain = settings("jdbc:postgresql://h/d")
    assert plain["TimeZone"] == "UTC"
    assert settings(f"jdbc:postgresql://h/d?{parameters}") == plain | expected


def settings(url: str) -> dict[str, str]:
    return dict(read_url(JdbcTarget(url, "u", "pw", "t1")).settings)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("sslmode=require&sslrootcert=/ca.pem", {"sslmode": "require", "sslrootcert": "/ca.pem"}),
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl", {"sslmode": "verify-full"}),
        ("ssl=false", {}),
        ("ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory", {"sslmode": "require"}),
        ("ssl=true&sslmode=verify-ca", {"sslmode": "verify-ca"}),
        ("sslmode=prefer&ssl=true", {"sslmode": "prefer"}),
        (
            "ssl=true&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory",
            {"sslmode": "verify-full", "sslrootcert": "system"},
        ),
        ("ssl=true&sslfactory=org.postgresql.ssl.LibPQFactory", {"sslmode": "verify-full"}),
        (
            "sslcert=/c.crt&sslkey=/c.pk8&sslpassword=x",
            {"sslcert": "/c.crt", "sslkey": "/c.pk8", "sslpassword": "x"},
        ),
        (
            "sslNegotiation=direct&sslmode=require",
            {"sslmode": "require", "sslnegotiation": "direct"},
        ),
        ("connectTimeout=3", {"connect_timeout": 3}),
        ("ApplicationName=porter", {"application_name": "porter"}),
        ("prepareThreshold=0", {"prepare_threshold": None}),
        ("targetServerType=master", {"target_session_attrs": "primary"}),
        ("socketTimeout=30", {"tcp_user_timeout": 30_000, "keepalives_idle": 30}),
        (
            "reWriteBatchedInserts=true&stringtype=unspecified&socketTimeout=0&characterEncoding=UTF-8",
            {},
        ),
    ],
)
def test_postgresql_parameters(parameters: str, expected: dict[str, object]) -> None:
    plain = arguments("jdbc:postgresql://h/d")
    assert arguments(f"jdbc:postgresql://h/d?{parameters}") == plain | expected

import pytest

from cdcbus.ops.init.server import SOURCES, TARGETS, Server, read_server


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("mysql://u:p@db1:3307/shop", Server("mysql", "db1", 3307, "u", "p", "shop")),
        ("mariadb://u@db1/shop", Server("mysql", "db1", 3306, "u", None, "shop")),
        ("postgres://u:@db1", Server("postgresql", "db1", 5432, "u", "", "")),
        ("jdbc:postgresql://db1/d", Server("postgresql", "db1", 5432, "", None, "d")),
        (
            "mysql://u%40x:a%2Fb%3F@db1/s%20t",
            Server("mysql", "db1", 3306, "u@x", "a/b?", "s t"),
        ),
    ],
)
def test_an_address_is_read(url: str, server: Server) -> None:
    assert read_server(url, TARGETS) == server


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("db1:3306", "begins with none of"),
        ("postgresql://u:secret@db1/d", "begins with none of mysql://, mariadb://"),
        ("mysql:///shop", "begins with none of"),
        ("mysql://u:secret@db1:none/d", "cannot be read"),
        ("mysql://u:secr/et@db1/d", "cannot be read"),
        ("mysql://u:secret@db1/d?useSSL=true", "TLS are for the task file"),
        ("mysql://u:secr#et@db1/d", "cannot be read"),
        ("jdbc:oracle:thin:@//db1/x", "cdcbus task new"),
    ],
)
def test_one_that_cannot_be_used_is_refused_without_its_password(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        read_server(url, SOURCES)
    assert "secr" not in str(refused.value)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(read_server("mysql://u:secret@db1", SOURCES))

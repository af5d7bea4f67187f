import pytest

from cdcbus.plugins.rowchange import type_without_comment


@pytest.mark.parametrize(
    ("printed", "plain"),
    [
        ("varbinary(20) /*M!100301 COMPRESSED*/", "varbinary(20)"),
        ("text /*M!100301 COMPRESSED*/", "text"),
        ("timestamp(3) /* mariadb-5.3 */", "timestamp(3)"),
        ("int(10) unsigned", "int(10) unsigned"),
        ("enum('a /* b */','c')", "enum('a /* b */','c')"),
        ("enum('a /*')", "enum('a /*')"),
    ],
)
def test_what_mariadb_adds_to_a_type_is_left_out(printed: str, plain: str) -> None:
    assert type_without_comment(printed) == plain

"""How long a server keeps its binlog, by each server's own setting."""

from __future__ import annotations

import pytest

from cdcbus.producer.server.retention import binlog_retention


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"binlog_expire_logs_seconds": "2592000", "expire_logs_days": "0"}, 2_592_000.0),
        ({"expire_logs_days": "0.500000"}, 43_200.0),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "10"}, 864_000.0),
        ({"binlog_expire_logs_seconds": "3600"}, 3_600.0),
        ({"binlog_expire_logs_seconds": "0"}, None),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "0.000000"}, None),
        ({}, None),
    ],
)
def test_how_long_a_server_keeps_its_binlog(
    variables: dict[str, str], expected: float | None
) -> None:
    assert binlog_retention(variables) == expected

"""How far behind: what can be told without a server."""

import pytest

from cdcbus.tasks.runtime.lag import (
    Lag,
    binlog_retention,
    binlog_unread,
    bytes_between,
    unread_share,
)

FILES = [("bin.1", 100), ("bin.2", 200), ("bin.3", 300), ("bin.4", 50)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (("bin.2", 4), ("bin.2", 60), 56),
        (("bin.2", 60), ("bin.2", 60), 0),
        (("bin.2", 150), ("bin.3", 10), 60),
        (("bin.1", 90), ("bin.4", 7), 10 + 200 + 300 + 7),
        (("bin.0", 4), ("bin.4", 7), None),  # purged
        (("bin.9", 4), ("bin.9", 7), 3),  # the files of one place need not be known
    ],
)
def test_the_bytes_of_a_binlog_between_two_places(
    start: tuple[str, int], end: tuple[str, int], expected: int | None
) -> None:
    assert bytes_between(FILES, start, end) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"binlog_expire_logs_seconds": "2592000", "expire_logs_days": "0"}, 2_592_000.0),
        ({"expire_logs_days": "0.500000"}, 43_200.0),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "10"}, 864_000.0),
        ({"binlog_expire_logs_seconds": "0"}, None),
        ({}, None),
    ],
)
def test_how_long_a_server_keeps_its_binlog(
    variables: dict[str, str], expected: float | None
) -> None:
    assert binlog_retention(variables) == expected


@pytest.mark.parametrize(
    ("offset", "bounds", "record_bytes", "kept_bytes", "expected"),
    [
        (0, (0, 100), 100.0, 1_000_000, 0.01),  # all is unread, and the log is far from its limit
        (0, (0, 100), 100.0, 5_000, 1.0),
        (70, (50, 100), 1_000.0, 10_000, 0.6),  # of a full log
        (100, (50, 100), 1_000.0, 10_000, 0.0),
        (40, (50, 100), 1_000.0, 10_000, 1.0),  # what it needs is deleted already
        (0, (0, 0), 0.0, 10_000, 0.0),
    ],
)
def test_what_is_unread_of_a_log_that_is_kept_by_bytes(
    offset: int, bounds: tuple[int, int], record_bytes: float, kept_bytes: int, expected: float
) -> None:
    assert unread_share(offset, bounds, record_bytes, kept_bytes) == pytest.approx(expected)


def test_what_is_unread_of_a_binlog_is_told_where_the_server_keeps_so_many_bytes() -> None:
    share, words = binlog_unread(750, 1_000)
    assert (share, words.split(";")[0]) == (
        0.75,
        "750 bytes of the binlog are still to be read, and the server keeps 1,000 "
        "(max_binlog_total_size)",
    )
    assert binlog_unread(750, 0) == binlog_unread(None, 1_000) == (None, "")
    assert binlog_unread(2_000, 1_000)[0] == 1.0


@pytest.mark.parametrize(
    ("lag", "is_behind"),
    [(Lag(), False), (Lag(0), False), (Lag(3), True), (Lag(bytes=0), False), (Lag(bytes=9), True)],
)
def test_a_task_is_behind_only_where_that_is_known(lag: Lag, is_behind: bool) -> None:
    assert lag.is_behind is is_behind

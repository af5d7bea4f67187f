"""What `cdcbus snapshot status` makes of a progress."""

from cdcbus.ops.cli.commands.snapshot import _bar, _rows_per_second, _seconds_left, _share
from cdcbus.producer.snapshot.progress import TableProgress, TableState

HALF = TableProgress(TableState.RUNNING, 50, estimated_rows=100, started_ms=1_000, updated_ms=6_000)


def test_the_time_left_is_that_of_the_rows_that_the_server_guesses() -> None:
    assert _rows_per_second(HALF) == 10
    assert _seconds_left(HALF, 10) == 5
    assert _seconds_left(TableProgress(TableState.DONE, 50), 10) is None
    assert _seconds_left(TableProgress(), 0) is None


def test_nothing_is_done_before_it_is_done_however_the_server_guesses() -> None:
    assert _share(HALF) == 0.5
    assert _share(TableProgress(TableState.RUNNING, 500, estimated_rows=100)) == 0.99
    assert _share(TableProgress(TableState.DONE, 0)) == 1
    assert _share(TableProgress()) == 0
    assert _bar(HALF) == "50%"  # no terminal

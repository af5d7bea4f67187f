"""What is made of the progress of a snapshot."""

from cdcbus.ops.services.snapshots import TableSnapshot
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState

HALF = TableProgress(TableState.RUNNING, 50, estimated_rows=100, started_ms=1_000, updated_ms=6_000)


def of(progress: TableProgress) -> TableSnapshot:
    return TableSnapshot(TableId("shop", "orders"), progress)


def test_the_time_left_is_that_of_the_rows_that_the_server_guesses() -> None:
    assert of(HALF).rows_per_second == 10
    assert of(HALF).seconds_left == 5
    done = TableProgress(TableState.DONE, 50, started_ms=1_000, updated_ms=6_000)
    assert of(done).seconds_left is None
    assert of(TableProgress()).seconds_left is None


def test_nothing_is_done_before_it_is_done_however_the_server_guesses() -> None:
    assert of(HALF).share == 0.5
    assert of(TableProgress(TableState.RUNNING, 500, estimated_rows=100)).share == 0.99
    assert of(TableProgress(TableState.DONE, 0)).share == 1
    assert of(TableProgress()).share == 0

"""How long rows take through a fetch task, by a clock of the test's own."""

from __future__ import annotations

import pytest

from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import Origin, TableDdl, TableId
from cdcbus.producer.publish.stages import Stages
from cdcbus.producer.source.row_events import Batch, Part

BEGUN = 1_000_000.5


def batch(*commits: float, edge: float = 0.0) -> Batch:
    """Transactions that were committed then, in epoch seconds."""
    parts: list[Part] = [
        TableDdl(TableId("shop", "t"), "ALTER", "", Origin(commit_us=round(commit * 1_000_000)))
        for commit in commits
    ]
    return Batch(parts, BinlogPosition("bin.1", 4, timestamp_ms=int(edge * 1000)), [])


class Clock:
    def __init__(self) -> None:
        self.now = BEGUN

    def __call__(self) -> float:
        return self.now


def told(stages: Stages) -> list[tuple[float, ...] | None]:
    return [
        each and tuple(round(seconds, 5) for seconds in each)
        for each in (
            stages.read.quantiles(0.5, 1.0),
            stages.to_kafka.quantiles(0.5, 1.0),
            stages.published.quantiles(0.5, 1.0),
        )
    ]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_transaction_is_timed_from_its_commit_until_all_of_its_records_are_acknowledged(
    clock: Clock,
) -> None:
    stages = Stages(clock)
    assert told(stages) == [None, None, None]
    stages.sent(batch(BEGUN + 1.000_25), BEGUN + 1.001, rows=3, records=3)
    clock.now = BEGUN + 1.002
    stages.acknowledged(2)
    assert told(stages) == [(0.00075, 0.00075), None, None]
    clock.now = BEGUN + 1.004
    stages.acknowledged(3)
    stages.acknowledged(3)
    assert told(stages) == [(0.00075, 0.00075), (0.003, 0.003), (0.00375, 0.00375)]


def test_of_a_batch_the_first_and_the_last_transaction_count_for_half_of_its_rows_each(
    clock: Clock,
) -> None:
    stages = Stages(clock)
    commits = (BEGUN + 1.000_25, BEGUN + 2.000_25, BEGUN + 4.000_25)
    stages.sent(batch(*commits), BEGUN + 5.000_25, rows=30, records=30)
    assert told(stages)[0] == pytest.approx((1.0, 5 - 1.0), rel=0.05)


def test_a_server_that_tells_whole_seconds_gives_whole_seconds_rounded_up(clock: Clock) -> None:
    """Its row events tell when the statement began, the transaction's end when it was committed."""
    stages = Stages(clock)
    commit = float(int(BEGUN) + 2)
    stages.sent(batch(commit, commit, edge=commit + 1), commit + 1.25, rows=2, records=2)
    clock.now = commit + 1.26
    stages.acknowledged(2)
    assert told(stages) == [(1.0, 2.0), (0.01, 0.01), (1.0, 2.0)]


def test_what_was_committed_before_the_start_counts_only_from_where_it_was_read(
    clock: Clock,
) -> None:
    stages = Stages(clock)
    stages.sent(batch(BEGUN - 3600), BEGUN + 1, rows=1, records=1)
    clock.now = BEGUN + 1.5
    stages.acknowledged(1)
    assert told(stages) == [None, (0.5, 0.5), None]


def test_what_is_sent_again_is_not_timed_by_its_first_sending(clock: Clock) -> None:
    stages = Stages(clock)
    stages.sent(batch(BEGUN + 1.1), BEGUN + 2, rows=1, records=1)
    stages.forget()
    stages.acknowledged(1)
    assert told(stages)[1:] == [None, None]


def test_the_clocks_difference_is_taken_out(clock: Clock) -> None:
    stages = Stages(clock)
    stages.skew_seconds = 2.0  # the source's is ahead
    stages.sent(batch(BEGUN + 3.000_25), BEGUN + 1.1, rows=1, records=1)
    assert told(stages)[0] == (0.09975, 0.09975)


def test_batches_without_rows_are_not_kept(clock: Clock) -> None:
    stages = Stages(clock)
    stages.sent(batch(), BEGUN, rows=0, records=7)
    stages.sent(batch(BEGUN + 1), BEGUN, rows=0, records=7)
    assert not stages._waiting

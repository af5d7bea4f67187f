import itertools

import pytest

from cdcbus.consumer.batch.batch_size import (
    BACKLOG_BATCHES,
    HELD_BATCHES,
    LARGE_BYTES,
    LARGE_RECORDS,
    TURN_BYTES,
    TURN_SECONDS,
    TURN_TRANSACTIONS,
    BatchSize,
)

KB = 1024
MOST = 50_000 * TURN_TRANSACTIONS


def test_a_batch_whose_records_only_pass_by_has_many_transactions() -> None:
    assert BatchSize("7", 50_000).records == MOST
    assert BatchSize("7", 100).records == 100 * TURN_TRANSACTIONS
    assert (BatchSize("7", 50_000).few_records, BatchSize("7", 100).few_records) == (
        LARGE_RECORDS,
        100,
    )


def test_what_was_seen_of_the_records_tells_how_many_fit() -> None:
    size = BatchSize("7", 50_000)
    size.saw(0, 0)
    assert size.records == MOST
    size.saw(10, 10 * KB)
    assert size.records == TURN_BYTES // KB
    size.saw(1, 2 * TURN_BYTES)
    assert size.records == 1
    size.saw(1000, 10_000)
    assert size.records == MOST


@pytest.mark.parametrize(("count", "record_bytes"), [(MOST // 2, 100), (MOST, 800), (0, 0)])
def test_batches_that_are_not_full_or_fit_well_change_nothing(
    count: int, record_bytes: int
) -> None:
    size = BatchSize("7", 50_000)
    assert not size.learn(count, count * record_bytes)
    assert size.records == MOST


def test_a_batch_that_is_too_large_makes_the_next_ones_smaller_until_they_fit() -> None:
    size = BatchSize("7", 50_000)
    assert size.learn(10_000, 10_000 * KB * KB, is_too_large=True)
    assert size.records == TURN_BYTES // (KB * KB)
    assert not size.learn(size.records, size.records * KB * KB)


def test_a_single_record_is_always_taken() -> None:
    size = BatchSize("7", 50_000)
    for _ in range(30):
        size.learn(size.records, size.records * 10 * TURN_BYTES, is_too_large=True)
    assert size.records == 1


def test_larger_ones_follow_step_by_step_once_records_are_small_again() -> None:
    size = BatchSize("7", 50_000)
    size.learn(10_000, 10_000 * KB * KB, is_too_large=True)
    steps = [size.records]
    while size.learn(size.records, size.records * KB // 2):
        steps.append(size.records)
    assert steps[-1] == MOST
    assert all(after <= 4 * before for before, after in itertools.pairwise(steps))


def test_batches_that_last_too_long_become_as_large_as_fits_into_half_a_turn_and_stay_so() -> None:
    size = BatchSize("7", 50_000)
    before, records_per_second = size.records, 60_000
    assert before > records_per_second * TURN_SECONDS
    count = int(records_per_second * TURN_SECONDS)
    assert size.learn(count, count * 10, is_too_large=True, seconds=TURN_SECONDS)
    assert size.records == count // 2
    assert not size.learn(
        size.records, size.records * 10, seconds=size.records / records_per_second
    )
    assert size.learn(
        size.records, size.records * 10, seconds=size.records / records_per_second / 8
    )
    assert size.records == before


def test_a_batch_is_large_by_its_records_its_bytes_or_where_transactions_are_to_be_small() -> None:
    size = BatchSize("7", 50_000)
    assert [size.is_large(count) for count in (100, LARGE_RECORDS, LARGE_RECORDS + 1)] == [
        False,
        False,
        True,
    ]
    size.saw(10, 10 << 20)
    assert [size.is_large(count) for count in (8, 9)] == [False, True]
    assert BatchSize("7", 5).is_large(6)


@pytest.mark.parametrize("record_bytes", [100, KB * KB])
def test_the_gear_changes_at_another_backlog_than_back(record_bytes: int) -> None:
    size = BatchSize("7", 50_000)
    size.saw(10, 10 * record_bytes)
    large = min(LARGE_RECORDS, LARGE_BYTES // record_bytes)
    assert size.is_rest(large) and not size.is_rest(large + 1)
    assert not size.is_backlog(large + 1)
    assert size.is_backlog(BACKLOG_BATCHES * (large + 1))


def test_a_batch_that_is_full_is_no_rest_however_small_it_is() -> None:
    """Else a few large records among small ones would have the gears change for ever."""
    size = BatchSize("7", 50_000)
    size.saw(1, TURN_BYTES // 10)
    size.learn(5, 500)
    assert size.records <= LARGE_RECORDS
    assert not size.is_rest(size.records)


def test_while_partitions_wait_for_each_other_no_backlog_is_for_executors() -> None:
    size = BatchSize("7", 50_000)
    size.hold()
    for _ in range(HELD_BATCHES):
        assert not size.is_backlog(MOST)
        size.saw(10, 1000)
    assert size.is_backlog(MOST)

import itertools

import pytest

from cdcbus.consumer.batch.batch_size import (
    BATCH_BYTES,
    FIRST_RECORDS,
    HELD_BATCHES,
    LARGE_RECORDS,
    TURN_BYTES,
    TURN_SECONDS,
    TURN_TRANSACTIONS,
    BatchSize,
)

KB = 1024


def test_the_first_batch_is_small_as_nothing_is_known_of_the_records() -> None:
    assert BatchSize("7", 50_000, is_streamed=False).records == FIRST_RECORDS
    assert BatchSize("7", 100, is_streamed=False).records == 100


def test_where_many_records_of_a_known_size_are_ahead_the_first_batch_is_as_large_as_fits() -> None:
    size = BatchSize("7", 50_000, is_streamed=True)
    size.expect(FIRST_RECORDS - 1, KB)
    assert size.records == FIRST_RECORDS
    size.expect(FIRST_RECORDS, 0)
    assert size.records == FIRST_RECORDS
    size.expect(FIRST_RECORDS, KB)
    assert size.records == TURN_BYTES // KB
    assert size.is_large(TURN_BYTES // KB)
    size.expect(TURN_BYTES, 10 * KB)
    assert size.records == TURN_BYTES // KB // 10


def test_full_batches_of_small_records_make_room_for_as_many_as_the_task_allows() -> None:
    size = BatchSize("7", 50_000, is_streamed=False)
    assert size.learn(FIRST_RECORDS - 2, FIRST_RECORDS * KB // 2)  # Spark's are a little smaller
    assert size.records == 50_000
    assert not size.learn(50_000, 50_000 * KB // 2)


@pytest.mark.parametrize(
    ("count", "record_bytes"), [(FIRST_RECORDS // 2, KB), (FIRST_RECORDS, 50 * KB), (0, 0)]
)
def test_batches_that_are_not_full_or_fit_well_change_nothing(
    count: int, record_bytes: int
) -> None:
    size = BatchSize("7", 50_000, is_streamed=False)
    assert not size.learn(count, count * record_bytes)
    assert size.records == FIRST_RECORDS


def test_a_batch_that_is_too_large_makes_the_next_ones_smaller_until_they_fit() -> None:
    size = BatchSize("7", 50_000, is_streamed=False)
    assert size.learn(FIRST_RECORDS, FIRST_RECORDS * KB * KB, is_too_large=True)
    assert size.records == BATCH_BYTES // (KB * KB)
    assert not size.learn(size.records, size.records * KB * KB)


@pytest.mark.parametrize("record_bytes", [KB, KB * KB])
def test_after_a_batch_whose_lanes_wait_for_each_other_the_next_ones_are_not_streamed(
    record_bytes: int,
) -> None:
    size = BatchSize("7", 50_000, is_streamed=True)
    size.expect(FIRST_RECORDS, record_bytes)
    assert size.is_large(size.records)
    assert size.hold()
    held = size.records
    assert not size.is_large(held)
    assert not size.hold()
    for _ in range(HELD_BATCHES):
        assert not size.learn(held, held * record_bytes)
    assert size.learn(held, held * record_bytes)
    assert size.records > held
    assert size.is_large(size.records)
    assert size.hold()


def test_while_they_are_held_records_that_are_too_large_still_make_batches_smaller() -> None:
    size = BatchSize("7", 50_000, is_streamed=False)
    size.hold()
    assert size.learn(size.records, size.records * KB * KB, is_too_large=True)
    assert size.records == BATCH_BYTES // (KB * KB)


def test_a_single_record_is_always_taken() -> None:
    size = BatchSize("7", 50_000, is_streamed=False)
    for _ in range(20):
        size.learn(size.records, size.records * 10 * BATCH_BYTES, is_too_large=True)
    assert size.records == 1


def test_larger_ones_follow_step_by_step_once_records_are_small_again() -> None:
    size = BatchSize("7", 50_000, is_streamed=False)
    size.learn(FIRST_RECORDS, FIRST_RECORDS * KB * KB, is_too_large=True)
    steps = [size.records]
    while size.learn(size.records, size.records * KB // 2):
        steps.append(size.records)
    assert steps[-1] == 50_000
    assert all(after <= 4 * before for before, after in itertools.pairwise(steps))


def test_batches_that_only_pass_by_may_have_several_transactions() -> None:
    size = BatchSize("7", 50_000, is_streamed=True)
    assert size.records == FIRST_RECORDS
    assert size.learn(FIRST_RECORDS, FIRST_RECORDS * KB)
    assert size.records == TURN_BYTES // KB
    small = BatchSize("7", 50_000, is_streamed=True)
    assert small.learn(FIRST_RECORDS, FIRST_RECORDS * 10)
    assert small.records == 50_000 * TURN_TRANSACTIONS


def test_batches_that_last_too_long_become_as_large_as_fits_into_half_a_turn_and_stay_so() -> None:
    size = BatchSize("7", 50_000, is_streamed=True)
    size.learn(FIRST_RECORDS, FIRST_RECORDS * 10)
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
    size = BatchSize("7", 50_000, is_streamed=True)
    assert [size.is_large(count) for count in (100, LARGE_RECORDS, LARGE_RECORDS + 1)] == [
        False,
        False,
        True,
    ]
    size.learn(10, 10 << 20)
    assert [size.is_large(count) for count in (8, 9)] == [False, True]
    assert BatchSize("7", 5, is_streamed=True).is_large(6)

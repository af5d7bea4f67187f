"""Which rows a scan reads, and which it finds to differ: ranges, buckets and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event

import pytest

from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.tasks.verify import compare, scan
from cdcbus.tasks.verify.report import Example, Kind
from cdcbus.tasks.verify.sql.checksums import Digest, Sums
from cdcbus.tasks.verify.subject import Cells, Subject, Way
from tests.unit.tasks.verify.two_sides import (
    World,
    buckets,
    counted,
    rows,
    streamed,
    streamed_by_key,
    subject,
    two_sources,
)


def test_chunks_with_equal_sums_are_equal_without_a_row_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 3)
    world = World(rows(*range(7)), rows(*range(7)))
    report = world.comparison.run()
    assert (report.result, report.chunks, report.source_rows, report.target_rows) == (
        *("equal", 3),
        *(7, 7),
    )
    assert (world.source.read, world.target.read) == (0, 0)
    assert world.told == [3, 6, 7]


def test_the_end_of_the_next_chunk_is_found_while_the_target_is_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 3)
    world = World(rows(*range(7)), rows(*range(7)))
    bound, digest, is_found = world.source.bound, world.target.digest, Event()

    def found(last: Cells | None, count: int) -> Cells | None:
        if last is not None:
            is_found.set()
        return bound(last, count)

    def digested(pairs: object, where: str, most: int) -> Digest:
        assert is_found.wait(60), "the source waits for the target"
        return digest(pairs, where, most)

    monkeypatch.setattr(world.source, "bound", found)
    monkeypatch.setattr(world.target, "digest", digested)
    assert world.comparison.run().result == "equal"
    assert world.told == [3, 6, 7]


def test_only_the_chunk_that_differs_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 3)
    world = World(rows(*range(9)), [*rows(0, 1, 2, 3, 5, 6, 7, 8), ("4", "b")])
    report = world.comparison.run()
    assert report.chunks_different == 1
    assert world.source.conditions[0] == "> ('2',) AND <= ('5',)"
    assert report.examples == [Example(Kind.DIFFERENT, {"id": "4"}, "", ("name",))]


def test_rows_outside_of_the_sources_keys_are_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 1)
    world = World(rows(5, 6), rows(-7, 5, 6, 99))
    assert counted(world) == {Kind.EXTRA: 2}


@pytest.mark.parametrize("what", [subject, buckets, streamed, streamed_by_key])
@pytest.mark.parametrize("own", [[], [1, 2]])
def test_a_target_with_far_more_rows_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch, what: Callable[[], Subject], own: list[int]
) -> None:
    """As an archive, whose rows would not fit into memory. All that is found is extra."""
    monkeypatch.setattr(compare, "MOST_SUSPECTS", 5)
    world = World(rows(*own), rows(*range(1, 1000)), what())
    assert counted(world) == {Kind.EXTRA: 5}
    report = world.comparison.report
    assert (report.is_cut, report.result) == (True, "different")
    assert report.target_rows <= 8


def test_rows_of_others_are_counted_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not kept until all of them are read."""
    world = World(rows(1), rows(*range(1, 1000)))
    world.comparison.others = ["8"]
    counts = []
    read = world.target.rows

    def reading(where: str) -> Iterator[Cells]:
        for row in read(where):
            yield row
            counts.append(world.comparison.report.of_others)

    monkeypatch.setattr(world.target, "rows", reading)
    report = world.comparison.run()
    assert counts == list(range(999))
    assert (report.result, report.of_others, report.target_rows) == ("equal", 998, 999)


def test_a_table_that_is_empty_at_the_source_is_compared_too() -> None:
    assert counted(World([], rows(1))) == {Kind.EXTRA: 1}


def test_sums_of_rows_without_a_hash_prove_nothing() -> None:
    world = World(rows(1), rows(1))
    world.source.has_hashes = world.target.has_hashes = False
    assert world.comparison.run().is_equal
    assert (world.source.read, world.target.read) == (1, 1)


def test_rows_in_another_order_are_proved_by_sums_and_soon_without_a_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 3)
    world = World(rows(*range(18)), rows(*range(18)))
    world.target.is_in_order = False
    assert world.comparison.run().result == "equal"
    assert (world.source.read, world.target.digests) == (0, scan.MOST_UNPROVED)


def test_a_chunk_with_many_more_rows_at_the_target_is_not_digested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 3)
    world = World(rows(0, 1, 2, 90), rows(*range(91)))
    assert counted(world) == {Kind.EXTRA: 87}


def test_chunks_of_long_rows_have_fewer_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LEAST_ROWS", 1)
    world = World(rows(*range(7)), rows(*range(7)))
    world.source.bytes_of_a_row = scan.CHUNK_BYTES // 3
    assert world.comparison.run().chunks == 3


def test_statistics_that_name_far_too_much_make_no_chunks_of_a_row() -> None:
    world = World(rows(*range(7)), rows(*range(7)))
    world.source.bytes_of_a_row = scan.CHUNK_BYTES
    assert world.comparison.run().chunks == 1


def test_a_table_without_sums_is_read_row_by_row() -> None:
    what = subject()
    what = replace(what, sources=tuple(replace(each, pairs=None) for each in what.sources))
    world = World(rows(1, 2), rows(1, 2), what)
    assert world.comparison.run().is_equal
    assert (world.source.read, world.target.read) == (2, 2)


def test_a_failure_of_the_target_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked in another thread."""
    world = World(rows(1), rows(1))

    def fail(*_: object) -> Sums:
        raise TargetUnavailable("the target is away")

    monkeypatch.setattr(world.target, "digest", fail)
    with pytest.raises(TargetUnavailable, match="is away"):
        world.comparison.run()


def test_only_buckets_that_differ_are_read() -> None:
    world = World(rows(10, 11, 12, 21), rows(10, 11, 12, 31), buckets())
    report = world.comparison.run()
    assert (report.chunks, report.chunks_different) == (3, 1)
    assert world.source.conditions[0] == "buckets [1]"
    assert report.counts[Kind.MISSING] == report.counts[Kind.EXTRA] == 1
    assert (report.source_rows, report.target_rows) == (4, 4)


def test_no_more_buckets_are_read_together_than_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "ROWS_AT_ONCE", 2)
    world = World(rows(1, 2, 3), [], buckets())
    assert counted(world) == {Kind.MISSING: 3}
    assert world.source.conditions[:2] == ["buckets [1, 2]", "buckets [3]"]


def test_a_bucket_that_only_the_target_has_is_extra() -> None:
    assert counted(World(rows(1), rows(1, 5), buckets())) == {Kind.EXTRA: 1}


def test_a_sample_of_buckets_is_the_same_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BUCKETS", 10)
    world = World(rows(*range(10)), rows(*range(10)), buckets(), sample=0.3)
    report = world.comparison.run()
    assert (report.result, report.chunks, report.chunks_skipped) == ("equal", 3, 7)
    assert (report.source_rows, report.target_rows) == (3, 3)


def test_a_sample_has_at_least_one_range_and_nothing_is_said_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 1)
    world = World(rows(1, 2, 3), [], sample=0.0)
    report = world.comparison.run()
    assert (report.chunks, report.chunks_skipped) == (1, 3)
    assert report.source_rows == report.differences <= 1


def test_a_small_sample_of_one_range_compares_it() -> None:
    """Nothing compared would be called equal."""
    report = World(rows(1, 2), rows(1), sample=0.01).comparison.run()
    assert (report.chunks, report.chunks_skipped, report.result) == (1, 0, "different")


def test_keys_that_do_not_fit_into_memory_are_compared_part_by_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each row in one part, and in one only."""
    monkeypatch.setattr(scan, "KEYS_IN_MEMORY", 20)
    world = World(rows(*range(60)), rows(*range(1, 61)), streamed())
    report = world.comparison.run()
    assert report.chunks == 4
    assert (report.source_rows, report.target_rows) == (60, 60)
    assert report.counts[Kind.MISSING] == report.counts[Kind.EXTRA] == 1


def test_a_sample_of_a_stream_is_of_the_same_keys_on_both_sides() -> None:
    world = World(rows(*range(200)), rows(*range(200)), streamed(), sample=0.5)
    report = world.comparison.run()
    assert report.is_equal
    assert 50 < report.source_rows == report.target_rows < 150
    assert (report.chunks, report.chunks_skipped) == (1, 1)


def test_samples_of_a_stream_are_of_other_keys_each_time() -> None:
    """Otherwise rows of all other keys are never compared."""
    found = set[str]()
    for _ in range(40):
        report = World(rows(*range(8)), [], streamed(), sample=0.3).comparison.run()
        assert 1 <= report.chunks_skipped + report.chunks <= 3
        found |= {example.digest for example in report.examples}
    assert len(found) == 8


@pytest.mark.parametrize("what", [streamed, buckets])
def test_a_small_table_of_which_a_sample_has_no_row_is_compared_whole(
    monkeypatch: pytest.MonkeyPatch, what: Callable[[], Subject]
) -> None:
    monkeypatch.setattr(scan, "BUCKETS", 10**9)
    report = World(rows(1, 2), rows(1), what(), sample=1e-9).comparison.run()
    assert (report.source_rows, report.chunks_skipped) == (2, 0)
    assert report.result == "different"


def test_buckets_of_several_sources_are_summed_up() -> None:
    what = replace(two_sources(), way=Way.BUCKETS)
    world = World(rows(1), rows(1, 11), what, others=rows(11))
    assert world.comparison.run().is_equal
    assert world.target.read == 0

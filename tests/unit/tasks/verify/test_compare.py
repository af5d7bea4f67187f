"""What a comparison says of rows that are equal, that differ, and that change meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cdcbus.plugins.rowchange import Cell
from cdcbus.tasks.verify import compare, scan
from cdcbus.tasks.verify.report import Example, Kind
from cdcbus.tasks.verify.subject import Subject, Way
from tests.unit.tasks.verify.two_sides import (
    INT,
    Clock,
    World,
    buckets,
    counted,
    mapped,
    rows,
    streamed,
    streamed_by_key,
    subject,
    two_sources,
    with_short_key,
)


def test_each_kind_of_difference_has_its_name() -> None:
    world = World([*rows(1, 2), ("3", "a")], [*rows(1, 9), ("3", None)])
    assert counted(world) == {Kind.MISSING: 1, Kind.EXTRA: 1, Kind.DIFFERENT: 1}
    found = {example.key["id"]: example.kind for example in world.comparison.report.examples}
    assert found == {"2": Kind.MISSING, "9": Kind.EXTRA, "3": Kind.DIFFERENT}


def test_values_are_shown_only_where_that_is_wanted() -> None:
    own, theirs = [("1", "secret")], [("1", "other")]
    hidden, shown = World(own, theirs), World(own, theirs, shows_values=True)
    [example] = hidden.comparison.run().examples
    assert (example.source, example.target) == (None, None)
    [example] = shown.comparison.run().examples
    assert (example.source, example.target) == ({"name": "secret"}, {"name": "other"})


def test_columns_differ_by_what_is_compared_though_people_see_the_same() -> None:
    example = Example(Kind.DIFFERENT, {}).of_rows(["a", "b"], ["1", "x"], ["2", "x"], lengths)
    assert (example.columns, example.source, example.target) == (("a",), {"a": "1"}, {"a": "1"})


def lengths(row: Sequence[Cell]) -> list[Cell]:
    return [str(len(cell or "")) for cell in row]


def test_of_a_missing_row_all_cells_are_shown() -> None:
    [example] = World([("1", "x")], [], shows_values=True).comparison.run().examples
    assert (example.source, example.target) == ({"id": "1", "name": "x"}, None)
    assert example.columns == ()


@pytest.mark.parametrize(
    ("theirs", "wanted"),
    [
        ([("abc", "a")], {}),
        ([("abc", "b")], {Kind.DIFFERENT: 1}),
        ([], {Kind.MISSING: 1}),
    ],
)
def test_a_row_whose_key_has_lost_its_last_blanks_at_the_target_is_the_sources(
    theirs: list[tuple[str, str]], wanted: dict[Kind, int]
) -> None:
    """The source finds it only with them, by a collation without padding."""
    what = subject([mapped({**INT, "id": "varchar(9)"})], with_short_key(3))
    world = World([("abc   ", "a")], theirs, what)
    # So that no number of rows is looked at in the end.
    world.clock.is_moving = True
    assert counted(world) == wanted


# rows without a key


@pytest.mark.parametrize(
    ("own", "theirs", "wanted"),
    [
        ([1, 1, 1], [1], {Kind.MISSING: 2}),
        ([1], [1, 1], {Kind.EXTRA: 1}),
        ([1, 2, 2], [2, 1, 2], {}),
        ([1], [2], {Kind.MISSING: 1, Kind.EXTRA: 1}),
    ],
)
def test_rows_without_a_key_are_counted(
    own: Sequence[int], theirs: Sequence[int], wanted: dict[Kind, int]
) -> None:
    world = World(rows(*own), rows(*theirs), streamed())
    assert world.subject.way is Way.STREAM
    assert counted(world) == wanted


def test_a_row_without_a_key_is_told_by_its_digest() -> None:
    [example] = World(rows(1), [], streamed()).comparison.run().examples
    assert example.key == {}
    assert len(bytes.fromhex(example.digest)) == 16


# several rows of one key


def test_rows_of_several_sources_go_to_one_target() -> None:
    world = World(rows(1), rows(1, 2), two_sources(), others=rows(2))
    report = world.comparison.run()
    assert report.is_equal
    assert report.sources == ["shop.orders", "shop.older"]


def test_two_rows_that_are_one_at_the_target_are_merged() -> None:
    assert counted(World(rows(1), rows(1), two_sources(), others=rows(1))) == {Kind.MERGED: 1}


def test_more_rows_of_one_key_at_the_target_are_extra() -> None:
    assert counted(World(rows(1), rows(1, 1))) == {Kind.EXTRA: 1}


# changes meanwhile


def test_a_row_that_arrives_meanwhile_is_equal() -> None:
    world = World(rows(1, 2), rows(1))
    world.clock.then = lambda _: world.target.held.__setitem__(slice(None), rows(1, 2))
    assert world.comparison.run().result == "equal"


def test_a_row_is_equal_where_the_target_has_what_the_source_had_before() -> None:
    world = World([("1", "a")], [("1", "before")])

    def change(look: int) -> None:
        world.target.held[:] = [("1", "a")]
        world.source.held[:] = [("1", "after")]

    world.clock.then = change
    assert world.comparison.run().result == "equal"


def test_rows_are_not_said_to_differ_before_their_changes_have_come() -> None:
    world = World(rows(1, 2), rows(1), patience=0.0)
    world.clock.has_come = False
    report = world.comparison.run()
    assert (report.result, report.behind, report.differences) == ("behind", 1, 0)


def test_changes_are_waited_for_as_long_as_patience_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "LOOK_SECONDS", 0.0)
    world = World(rows(1, 2), rows(1), patience=60.0)
    answers = iter([False, False, True])
    monkeypatch.setattr(world.clock, "has_passed", lambda _: next(answers))
    assert counted(world) == {Kind.MISSING: 1}
    assert next(answers, None) is None


@pytest.mark.parametrize(("has_moved", "looks"), [(False, 0), (True, 3)])
def test_tasks_that_have_not_moved_since_a_wait_was_given_up_are_not_waited_for_again(
    monkeypatch: pytest.MonkeyPatch, has_moved: bool, looks: int
) -> None:
    """Each of 500 tables would cost its patience while a task is stopped."""
    world = World(rows(1, 2), rows(1), patience=60.0)
    world.clock.has_come, world.clock.has_moved, world.clock.given_up = False, has_moved, 1
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.clock.has_come = len(slept) == 3

    monkeypatch.setattr("cdcbus.tasks.verify.compare.time.sleep", sleep)
    report = world.comparison.run()
    assert (report.behind, report.differences) == ((0, 1) if has_moved else (1, 0))
    assert len(slept) == looks


def test_a_row_that_never_stands_still_is_changing() -> None:
    world = World([("1", "0")], [("1", "x")], patience=0.0)
    world.clock.then = lambda look: world.source.held.__setitem__(0, ("1", str(look)))
    report = world.comparison.run()
    assert (report.result, report.changing, report.behind) == ("changing", 1, 0)


def test_a_row_that_changed_before_the_task_stopped_is_behind() -> None:
    world = World([("1", "0")], [("1", "x")])

    def then(look: int) -> None:
        if look == 1:
            world.source.held[0] = ("1", "1")
        if look == 3:
            world.clock.has_come, world.clock.has_moved, world.clock.given_up = False, False, 1

    world.clock.then = then
    report = world.comparison.run()
    assert (report.result, report.behind, report.changing) == ("behind", 1, 0)


class Time:
    """Stands still but for those who sleep, and for `passed`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        monkeypatch.setattr(compare, "time", self)

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


@pytest.mark.parametrize("changes", [(1, 2), (3,)])
def test_a_row_that_stood_still_at_one_of_the_checks_is_behind(
    monkeypatch: pytest.MonkeyPatch, changes: tuple[int, ...]
) -> None:
    """At the second, as it changed before that, or at the first."""
    time = Time(monkeypatch)
    world = World([("1", "0")], [("1", "x")], patience=60.0)
    world.clock.is_moving = True

    def then(look: int) -> None:
        time.passed += 16.0
        if look in changes:
            world.source.held[0] = ("1", str(look))

    world.clock.then = then
    report = world.comparison.run()
    assert (report.result, report.behind, report.changing) == ("behind", 1, 0)
    assert world.clock.looks == 4


def test_a_row_that_never_stands_still_is_changing_though_patience_ends_while_a_change_is_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each table that is written to all the time would raise an alarm."""
    time = Time(monkeypatch)
    world = World([("1", "0")], [("1", "x")], patience=60.0)
    world.clock.then = lambda look: world.source.held.__setitem__(0, ("1", str(look)))
    came = 0.0

    def has_passed(_: object) -> bool:
        nonlocal came
        if time.passed < came + 7.0:
            return False
        came = time.passed
        return True

    monkeypatch.setattr(world.clock, "has_passed", has_passed)
    report = world.comparison.run()
    assert (report.result, report.changing, report.behind) == ("changing", 1, 0)
    assert 60.0 < time.passed < 68.0


def test_where_the_source_goes_on_a_difference_is_looked_at_twice() -> None:
    """The row may have changed and changed back between two looks."""
    still, moving = World(rows(1), []), World(rows(1), [])
    moving.clock.is_moving = True
    assert counted(still) == counted(moving) == {Kind.MISSING: 1}
    assert (still.clock.looks, moving.clock.looks) == (2, 4)


# servers that are copied into each other


@pytest.mark.parametrize(
    ("own", "theirs"), [([], [("1", "b")]), ([("1", "a")], [("1", "b")]), ([("1", "a")], [])]
)
def test_what_may_be_newer_at_the_target_differs_only_once_the_source_has_its_changes(
    own: list[tuple[str, str]], theirs: list[tuple[str, str]]
) -> None:
    back = Clock()
    back.has_come = False
    world = World(own, theirs, back=back, patience=0.0)
    report = world.comparison.run()
    assert (report.result, report.behind, world.comparison.different) == ("behind", 1, {})
    assert report.to_fields()["inboundTasks"] == ["8"]
    back.has_come = True
    assert World(own, theirs, back=back).comparison.run().differences == 1
    # Its change comes meanwhile.
    world = World(own, theirs, back=back)
    back.then = lambda _: world.source.held.__setitem__(slice(None), theirs)
    assert world.comparison.run().result == "equal"


def test_a_row_that_changes_at_such_a_target_meanwhile_is_changing() -> None:
    back = Clock()
    world = World([("1", "a")], [("1", "b")], back=back, patience=0.0)
    back.then = lambda look: world.target.held.__setitem__(0, ("1", str(look)))
    report = world.comparison.run()
    assert (report.result, report.changing) == ("changing", 1)


def test_where_it_is_not_known_whether_the_source_has_them_nothing_certainly_differs() -> None:
    world = World(rows(1, 2), rows(2, 3), doubt="no task is found")
    report = world.comparison.run()
    assert (report.result, report.behind, world.comparison.different) == ("behind", 2, {})
    assert report.to_fields()["doubt"] == "no task is found"
    assert lost(doubt="no task is found").comparison.run().result == "equal"


def test_too_many_differences_end_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 1)
    monkeypatch.setattr(compare, "MOST_SUSPECTS", 2)
    report = World(rows(*range(9)), []).comparison.run()
    assert (report.is_cut, report.chunks, report.counts[Kind.MISSING]) == (True, 3, 2)
    assert not report.is_equal


def test_rows_that_were_only_on_their_way_do_not_cut_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "CHUNK_ROWS", 1)
    monkeypatch.setattr(compare, "MOST_SUSPECTS", 2)
    world = World(rows(*range(9)), [])
    world.clock.then = lambda _: world.target.held.__setitem__(slice(None), rows(*range(9)))
    report = world.comparison.run()
    assert (report.result, report.is_cut, report.source_rows) == ("equal", False, 9)


def test_a_report_says_that_the_task_reads_only_some_partitions() -> None:
    world = World(rows(1), [], patience=0.0)
    world.clock.is_partial, world.clock.has_come = True, False
    report = world.comparison.run()
    assert (report.result, report.behind, report.is_partial) == ("behind", 1, True)


def shared(*worlds: World) -> None:
    for world in worlds:
        world.comparison.others = ["8"]


@pytest.mark.parametrize("what", [subject, buckets, streamed])
def test_rows_that_another_task_may_have_written_do_not_count(
    monkeypatch: pytest.MonkeyPatch, what: Callable[[], Subject]
) -> None:
    """However many they are: they are no suspects."""
    monkeypatch.setattr(compare, "MOST_SUSPECTS", 2)
    world, odd = (World(rows(1, 2), theirs, what()) for theirs in (rows(*range(9)), rows(2, 5, 6)))
    shared(world, odd)
    report = world.comparison.run()
    assert (report.result, report.of_others, report.is_cut) == ("equal", 7, False)
    assert counted(odd) == {Kind.MISSING: 1}
    assert odd.comparison.report.of_others == 2


def test_a_row_that_is_deleted_while_it_is_compared_may_be_another_tasks_then() -> None:
    world = World(rows(1), [("1", "b")])
    shared(world)
    world.clock.then = lambda _: world.source.held.clear()
    report = world.comparison.run()
    assert (report.differences, report.of_others) == (0, 1)


def test_many_keys_are_looked_up_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "KEYS_AT_ONCE", 2)
    world = World(rows(1, 2, 3), [])
    assert counted(world) == {Kind.MISSING: 3}
    asked = [name for name in world.target.conditions if name.startswith("in ")]
    assert max(name.count("('") for name in asked) == 2


def test_a_row_whose_key_has_no_literal_is_not_lost() -> None:
    """As one with NULL, or NaN, which only the target can have."""
    world = World(rows(1, 2), [*rows(1), ("NaN", "a"), ("2", "b")], streamed_by_key())
    world.source.unspelled = world.target.unspelled = {("NaN",)}
    assert counted(world) == {Kind.EXTRA: 1, Kind.DIFFERENT: 1}
    examples = {str(example.key["id"]): example for example in world.comparison.report.examples}
    assert (examples["NaN"].kind, examples["2"].columns) == (Kind.EXTRA, ("name",))


def lost(**options: Any) -> World:
    """A comparison that does not find a row of the target again, which it has read."""
    world = World(rows(1), rows(1, 2), **options)
    target: Any = world.target
    target.among = lambda _: target._named("none", lambda _: False)
    return world


def test_tables_with_other_numbers_of_rows_are_not_equal_while_nothing_changes() -> None:
    """Whatever is the reason that no row was found to differ."""
    world = lost()
    report = world.comparison.run()
    assert report.result == "error"
    assert "1 rows at the source, 2 at the target, and none of them is found" in report.error
    for name in ("is_moving", "has_come"):
        world = lost(patience=0)
        setattr(world.clock, name, name == "is_moving")
        assert world.comparison.run().result == "equal"
    world = lost()
    # A collation of one side can find more rows by the condition of --where.
    world.comparison.is_narrowed = True
    assert world.comparison.run().result == "equal"


def test_a_row_that_went_away_after_it_was_read_is_no_reason_for_doubt() -> None:
    world = World(rows(1), rows(1, 2))
    world.clock.then = lambda _: world.target.held.__setitem__(slice(None), rows(1))
    report = world.comparison.run()
    assert (report.result, report.source_rows, report.target_rows) == ("equal", 1, 1)


def test_only_some_of_many_differences_are_shown() -> None:
    report = World(rows(*range(30)), []).comparison.run()
    assert report.counts[Kind.MISSING] == 30
    assert len(report.examples) == 10


def test_another_look_says_what_is_left() -> None:
    world = World(rows(1, 2), [])
    report = world.comparison.run()
    assert report.counts[Kind.MISSING] == 2
    world.target.held[:] = rows(1)
    world.comparison.look_again()
    assert report.counts[Kind.MISSING] == 1
    assert (report.source_rows, report.target_rows) == (2, 1)
    assert [example.key for example in report.examples] == [{"id": "2"}]


def test_a_throttled_comparison_sleeps_until_its_rows_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    World(rows(*range(20)), rows(*range(20)), throttle=2).comparison.run()
    assert len(slept) == 1
    assert 9.0 < slept[0] <= 10.0

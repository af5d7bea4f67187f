"""What is kept of a verify, and what operators are told of it."""

from typing import Any

import pytest

from cdcbus.tasks.verify.last import (
    NOT_KEPT,
    Begun,
    LastVerify,
    NotEqual,
    VerifyNodes,
    failed_verify,
    last_verify,
    line_of,
    sentence_of_different,
    sentence_of_unproved,
)
from cdcbus.tasks.verify.report import Kind, TableReport
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

BEGUN, ENDED, LATER = "2024-05-01 03:00:00", "2024-05-01 03:04:05", "2024-05-02 03:04:05"


def report(
    table: str, differing: int = 0, behind: int = 0, error: str = "", **more: Any
) -> TableReport:
    found = TableReport(
        table, [table], source_rows=100, seconds=1.5, behind=behind, error=error, **more
    )
    found.counts[Kind.MISSING] = differing
    return found


def test_tables_that_differ_do_so_until_a_verify_finds_them_equal() -> None:
    first = last_verify(
        [report("a", 3), report("b"), report("c", 1), report("d", 2)], None, BEGUN, ENDED, "n"
    )
    assert first.results == {"different": 3, "equal": 1}
    assert [(each.table, each.differences, each.since) for each in first.different] == [
        ("a", 3, ENDED),
        ("c", 1, ENDED),
        ("d", 2, ENDED),
    ]
    reports = [report("a", error="away"), report("b", behind=4), report("c"), report("d", 5)]
    second = last_verify(reports, first, ENDED, LATER, "n")
    assert [(each.table, each.differences, each.since) for each in second.different] == [
        ("a", 3, ENDED),
        ("d", 5, ENDED),
    ]
    assert [each.table for each in second.unproved] == ["a", "b"]
    assert (second.word, second.rows, second.seconds) == ("different", 400, 6.0)
    failed = failed_verify("no access", second, LATER, LATER, "n")
    assert (failed.word, [each.table for each in failed.different]) == ("error", ["a", "d"])
    third = last_verify([report("a"), report("d")], failed, LATER, LATER, "n")
    assert (third.word, third.tables) == ("equal", ())


def test_of_many_tables_those_that_differ_are_all_kept() -> None:
    """Also where none of them can be compared the next time."""
    names = [f"t{number:03}" for number in range(450)]
    first = last_verify([report(name, 1) for name in names], None, BEGUN, ENDED, "n")
    reports = [report(name) for name in names[:300]]
    reports += [report(name, error="away") for name in [*names[300:], "u"]]
    second = last_verify(reports, first, ENDED, LATER, "n")
    assert [each.table for each in second.different] == names[300:]
    third = last_verify([report(name, error="away") for name in names], first, ENDED, LATER, "n")
    assert [each.table for each in third.different] == names
    assert [each.error for each in third.different] == ["away"] * 200 + [NOT_KEPT] * 250
    reports = [*(report(name, 1) for name in names[:200]), report("t300", error="away")]
    fourth = last_verify(reports, first, ENDED, LATER, "n", lambda _: False)
    assert sentence_of_unproved(fourth).endswith(f": t300: {NOT_KEPT}")
    many = last_verify([report(name, error="away") for name in names], None, BEGUN, ENDED, "n")
    assert len(many.tables) == 200


def test_a_table_that_differed_and_is_not_seen_any_more_still_differs() -> None:
    first = last_verify([report("a", 3), report("b", 1)], None, BEGUN, ENDED, "n")
    second = last_verify([], first, ENDED, LATER, "n", lambda table: table == "a")
    assert second.results == {"error": 1}
    [found] = second.different
    assert (found.table, found.result, found.differences, found.since) == ("a", "error", 3, ENDED)
    assert "GRANT SELECT" in sentence_of_unproved(second)
    assert last_verify([report("a")], second, LATER, LATER, "n").word == "equal"


def test_rows_that_keep_changing_are_not_equal_and_end_no_known_difference() -> None:
    first = last_verify([report("a", 3), report("b")], None, BEGUN, ENDED, "n")
    reports = [report("a", changing=1), report("b", changing=2)]
    second = last_verify(reports, first, ENDED, LATER, "n")
    assert (second.word, second.results) == ("different", {"changing": 2})
    assert second.tables == (NotEqual("a", "changing", 3, ENDED),)
    assert "a (3 rows, not proved since, " in sentence_of_different(second, "7")
    third = last_verify([report("a"), reports[1]], second, LATER, LATER, "n")
    assert (third.word, third.tables) == ("changing", ())
    assert (sentence_of_different(third, "7"), sentence_of_unproved(third)) == ("", "")


def test_what_was_not_compared_is_kept_and_said() -> None:
    reports = [report("a", left_out=("at", "zone")), report("b", others=("8",), of_others=5)]
    found = last_verify(reports, None, BEGUN, ENDED, "n")
    assert (found.word, found.left_out) == ("equal", ("a.at", "a.zone"))
    nodes = VerifyNodes(MemoryZooKeeper())
    nodes.put_last("7", found)
    assert nodes.last("7") == found
    assert line_of(found).endswith(
        "; columns not compared: a.at, a.zone; rows that may be of other tasks, not counted: 5"
    )
    columns = tuple(f"c{number}" for number in range(2000))
    many = last_verify([report("a", left_out=columns)], None, BEGUN, ENDED, "n")
    assert len(many.left_out) == 1000
    assert line_of(many).endswith("a.c3, a.c4 and more")


def test_why_rows_are_only_known_to_be_behind_is_kept() -> None:
    found = last_verify([report("a", behind=2, doubt="no task")], None, BEGUN, ENDED, "n")
    assert found.word == "behind"
    assert sentence_of_unproved(found).endswith(": a: no task")


def test_the_sentences_name_tables_and_say_what_to_do() -> None:
    found = last_verify([report("shop.a", 3), report("shop.b", 1)], None, BEGUN, ENDED, "node n1")
    assert sentence_of_different(found, "7") == (
        "2 target tables differ from the source, as the verify of 2024-05-01 03:04:05 UTC has "
        "found: shop.a (3 rows), shop.b (1 rows); cdcbus verify 7 shows the rows, with --repair it "
        "sends them again"
    )
    assert sentence_of_unproved(found) == ""
    many = last_verify([report(f"t{number}", 1) for number in range(9)], None, BEGUN, ENDED, "n")
    assert "t4 (1 rows) and 4 more;" in sentence_of_different(many, "7")
    behind = last_verify(
        [report("a", behind=1), report("b", error="away")], None, BEGUN, ENDED, "n"
    )
    assert sentence_of_different(behind, "7") == ""
    assert sentence_of_unproved(behind) == (
        "the verify of 2024-05-01 03:04:05 UTC could not tell whether 2 target tables are equal: "
        "a: changes up to then had not arrived, or no time was left to look again; b: away"
    )
    failed = failed_verify("the source is away", None, BEGUN, ENDED, "n")
    assert sentence_of_unproved(failed).endswith("could not be done: the source is away")
    assert line_of(found) == (
        "verify by node n1, ended 2024-05-01 03:04:05 UTC: different (tables: 2 different), "
        "200 rows, 3.0 s"
    )


def test_what_was_kept_is_read_again() -> None:
    nodes = VerifyNodes(MemoryZooKeeper())
    assert (nodes.last("7"), nodes.begun("7")) == (None, None)
    nodes.put_begun("7", Begun(1714532645.5, BEGUN, "n1", is_over=False))
    assert nodes.begun("7") == Begun(1714532645.5, BEGUN, "n1", is_over=False)
    found = last_verify(
        [report("a", 3), report("b", error="away"), report("c")], None, BEGUN, ENDED, "n"
    )
    nodes.put_last("7", found)
    assert nodes.last("7") == found


def test_a_table_of_which_a_newer_cdcbus_says_more_still_differs() -> None:
    zookeeper = MemoryZooKeeper()
    table = {"table": "a", "result": "different", "since": ENDED, "columns": ["x"]}
    zookeeper.put("/datas/task/7/verify", {"begun": BEGUN, "tables": [table]})
    last = VerifyNodes(zookeeper).last("7")
    assert last is not None
    assert last.different == [NotEqual("a", "different", since=ENDED)]


@pytest.mark.parametrize(
    "written",
    [
        "",
        "{",
        "[]",
        {"begun": 7},
        {"begun": BEGUN, "tables": 5, "results": []},
        {"begun": BEGUN, "tables": [5, {"table": "a"}, {"other": 1}, {"table": 7, "result": "x"}]},
    ],
)
def test_what_is_damaged_counts_as_none(written: object) -> None:
    zookeeper = MemoryZooKeeper()
    zookeeper.put("/datas/task/7/verify", written)
    last = VerifyNodes(zookeeper).last("7")
    assert last is None or isinstance(last, LastVerify)
    if last is not None:
        assert set(last.tables) <= {NotEqual("a", "")}

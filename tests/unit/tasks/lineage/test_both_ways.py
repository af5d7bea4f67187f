"""The tasks of the other direction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import Elsewhere, FetchTask
from cdcbus.tasks.lineage.both_ways import bringing_tasks, is_both_ways
from tests.unit.tasks.verify.two_sides import feed, load


def marking(mark: str) -> LoadTask:
    return replace(load(), task_id=mark, target=JdbcTarget("", mark=mark))


def leaving_out(*marks: str, **more: frozenset[str] | frozenset[int]) -> FetchTask:
    return replace(feed().fetch, elsewhere=Elsewhere(marks=frozenset(marks), **more))  # type: ignore[arg-type]


def test_a_copy_in_one_direction_is_none_in_both() -> None:
    assert not is_both_ways(load(), [feed().fetch])
    assert is_both_ways(marking("from_a"), [feed().fetch])
    assert is_both_ways(load(), [leaving_out("from_b")])
    assert is_both_ways(load(), [leaving_out(server_ids=frozenset((7,)))])


def test_the_other_direction_is_found_by_the_marks_that_are_left_out() -> None:
    tasks: dict[str, FetchTask | LoadTask] = {
        "a": marking("from_a"),
        "b": marking("from_b"),
        "c": marking("from_c"),
        "fetch": leaving_out("from_a"),
        "plain": load(),
    }
    fetches = [leaving_out("from_b"), leaving_out("from_c", "from_b")]
    assert bringing_tasks(marking("from_a"), fetches, tasks) == ["b", "c"]


@pytest.mark.parametrize(
    ("fetch", "why"),
    [
        (feed().fetch, "no fetch task that feeds it has consumer.source.excludeMarks"),
        (leaving_out("from_b", "from_c"), "no task is found that has loader.mark=from_c,"),
        (leaving_out("from_b", server_ids=frozenset((7,))), "excludeServerIds"),
        (leaving_out("from_b", gtid_sources=frozenset(("0-7",))), "excludeGtidSources"),
    ],
)
def test_what_else_may_bring_changes_is_not_known_to_have_come(fetch: FetchTask, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        bringing_tasks(marking("from_a"), [fetch], {"b": marking("from_b")})

"""What the last verify of a task has found, in ZooKeeper.

/datas/task/<id>/verify        what was found; written by `cdcbus verify ID` of all tables, and by
                               the node's own
/datas/task/<id>/verify/begun  when the node's schedule was begun or fulfilled last, and by which
                               node; written by that node
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kazoo.client import KazooClient

from cdcbus.tasks.verify.report import TableReport
from cdcbus.tasks.zookeeper.positions import ROOT
from cdcbus.tasks.zookeeper.znode import JsonNode, camel_case_fields, get_node, put_node

TABLES_KEPT: Final = 200
LONGEST_ERROR: Final = 500
NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class NotEqual:
    """A target table that was not equal, and why, as far as that is known. `result`: as of a
    report. `differences`: rows. `since`: when a verify has found that it differs first, empty where
    none has."""

    table: str
    result: str
    differences: int = 0
    since: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class LastVerify:
    """`begun`, `ended`: UTC. `by`: the node, or who typed. `results`: how many tables were equal,
    different and so on. `rows`: of the source. `tables`: those that were not equal, TABLES_KEPT at
    most; a table that differed before and could not be compared now counts as different still.
    `error`: why nothing could be compared."""

    begun: str
    ended: str = ""
    by: str = ""
    seconds: float = 0.0
    rows: int = 0
    results: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[NotEqual, ...] = ()
    error: str = ""

    @property
    def different(self) -> list[NotEqual]:
        return [each for each in self.tables if each.since]

    @property
    def unproved(self) -> list[NotEqual]:
        """Tables of which it is not known whether they are equal."""
        return [each for each in self.tables if each.result in ("error", "behind")]

    @property
    def word(self) -> str:
        """The whole in one word."""
        if self.error:
            return "error"
        if self.different:
            return "different"
        if self.unproved:
            return "error" if any(each.error for each in self.unproved) else "behind"
        return "equal"

    def to_fields(self) -> dict[str, Any]:
        return {**camel_case_fields(self), "result": self.word}


def last_verify(
    reports: Sequence[TableReport], before: LastVerify | None, begun: str, ended: str, by: str
) -> LastVerify:
    """What is kept of a verify of all tables."""
    known = {each.table: each for each in before.different} if before else {}
    found = []
    for report in reports:
        earlier = known.get(report.target)
        if report.result in ("equal", "changing"):
            continue
        is_different = report.result == "different"
        found.append(
            NotEqual(
                report.target,
                report.result,
                report.differences if is_different or not earlier else earlier.differences,
                earlier.since if earlier else ended if is_different else "",
                report.error[:LONGEST_ERROR],
            )
        )
    found.sort(key=lambda each: (not each.since, each.table))
    return LastVerify(
        begun,
        ended,
        by,
        round(sum(report.seconds for report in reports), 1),
        sum(report.source_rows for report in reports),
        dict(sorted(Counter(report.result for report in reports).items())),
        tuple(found[:TABLES_KEPT]),
    )


def failed_verify(
    error: str, before: LastVerify | None, begun: str, ended: str, by: str
) -> LastVerify:
    """A verify that could not be done. What differed before still does, as far as is known."""
    tables = tuple(before.different) if before else ()
    return LastVerify(begun, ended, by, tables=tables, error=error[:LONGEST_ERROR])


def line_of(last: LastVerify) -> str:
    """The whole in a line."""
    counts = ", ".join(f"{count:,} {word}" for word, count in last.results.items())
    why = f": {last.error}" if last.error else f" (tables: {counts})" if counts else ""
    return (
        f"verify by {last.by or '?'}, ended {last.ended or '?'} UTC: {last.word}{why}, "
        f"{last.rows:,} rows, {last.seconds:,.1f} s"
    )


def sentence_of_different(last: LastVerify, task_id: str) -> str:
    """What an operator is told; empty where all was equal."""
    found = last.different
    if not found:
        return ""
    named = ", ".join(f"{each.table} ({each.differences:,} rows)" for each in found[:NAMED])
    more = f" and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    are = "table differs" if len(found) == 1 else "tables differ"
    return (
        f"{len(found):,} target {are} from the source, as the verify of {last.ended} UTC has "
        f"found: {named}{more}; cdcbus verify {task_id} shows the rows, with --repair it sends "
        "them again"
    )


def sentence_of_unproved(last: LastVerify) -> str:
    """The same of tables that could not be compared."""
    if last.error:
        return f"the verify of {last.ended} UTC could not be done: {last.error}"
    found = last.unproved
    if not found:
        return ""
    named = "; ".join(
        f"{each.table}: {each.error or 'changes up to then had not arrived'}"
        for each in found[:NAMED]
    )
    more = f"; and {len(found) - NAMED:,} more" if len(found) > NAMED else ""
    return (
        f"the verify of {last.ended} UTC could not tell whether {len(found):,} target "
        f"{'table is' if len(found) == 1 else 'tables are'} equal: {named}{more}"
    )


@dataclass(frozen=True, slots=True)
class Begun:
    """When the schedule was begun or fulfilled last, in epoch seconds. `is_over` false: a verify
    has begun then, and its node has not seen its end. `stamp`: the same time as a text, which the
    verify puts into what it has found."""

    at: float
    stamp: str = ""
    node_id: str = ""
    is_over: bool = True


class VerifyNodes:
    """Lives as long as its client. All calls raise PositionUnavailable and PositionError; what is
    damaged counts as none."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def last(self, task_id: str) -> LastVerify | None:
        node = get_node(self._client, _path(task_id))
        # its child may be there before it
        return _last(node) if node is not None and node.text("begun") else None

    def put_last(self, task_id: str, last: LastVerify) -> None:
        put_node(self._client, _path(task_id), camel_case_fields(last))

    def begun(self, task_id: str) -> Begun | None:
        node = get_node(self._client, f"{_path(task_id)}/begun")
        at = node.real("at") if node else None
        if node is None or at is None:
            return None
        is_over = node.fields.get("isOver") is not False
        return Begun(at, node.text("stamp"), node.text("nodeId"), is_over)

    def put_begun(self, task_id: str, begun: Begun) -> None:
        put_node(self._client, f"{_path(task_id)}/begun", camel_case_fields(begun))


def _path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/verify"


def _last(node: JsonNode) -> LastVerify:
    results = node.fields.get("results")
    tables = node.fields.get("tables")
    return LastVerify(
        node.text("begun"),
        node.text("ended"),
        node.text("by"),
        node.real("seconds") or 0.0,
        node.number("rows"),
        {
            word: count
            for word, count in (results.items() if isinstance(results, dict) else ())
            if isinstance(count, int)
        },
        tuple(
            found
            for each in (tables if isinstance(tables, list) else ())
            if (found := _not_equal(each)) is not None
        ),
        node.text("error"),
    )


def _not_equal(fields: object) -> NotEqual | None:
    known = asdict(NotEqual("", ""))
    if not isinstance(fields, dict) or not fields.keys() <= known.keys():
        return None
    taken = {**known, **fields}
    if any(type(taken[name]) is not type(known[name]) for name in known):
        return None
    return NotEqual(**taken)

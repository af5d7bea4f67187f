"""The results of a task's last verify, in ZooKeeper.

/datas/task/<id>/verify        the results; written by `cdcbus verify ID` of all tables, and by a
                               node's scheduled verify
/datas/task/<id>/verify/begun  when the schedule was last begun or fulfilled, and by which node;
                               written by that node
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from kazoo.client import KazooClient

from cdcbus.tasks.verify.report import TableReport
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.znode import JsonNode, camel_case_fields, get_node, put_node

# With these and the errors cut, the znode stays far below ZooKeeper's limit of 1 MB.
TABLES_KEPT: Final = 200
# Tables that differ, of which those beyond TABLES_KEPT have NOT_KEPT as their error.
DIFFERENT_KEPT: Final = 1000
NOT_KEPT: Final = "of so many tables the reasons are not kept; another verify tells them"
COLUMNS_KEPT: Final = 1000
LONGEST_ERROR: Final = 500
# The tables that a sentence for operators names; the others are counted.
NAMED: Final = 5
UNSEEN: Final = (
    "it differed before, and the source shows no table for it any more: GRANT SELECT on the source "
    "table to the fetch task's user, or leave it out with consumer.excludes; if it was dropped "
    "there, drop it at the target, too"
)


@dataclass(frozen=True, slots=True)
class NotEqual:
    """A target table that was not equal, and why, as far as known. `result`: as in a report.
    `differences`: the number of rows. `since`: when a verify first found a difference, empty where
    none has."""

    table: str
    result: str
    differences: int = 0
    since: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class LastVerify:
    """The results of a verify. `begun`, `ended`: UTC. `by`: the node or operator. `results`: how
    many tables were equal, different and so on. `rows`: compared source rows. `tables`: those that
    were not equal, TABLES_KEPT at most, and DIFFERENT_KEPT of those that differ; a table that
    differed before and could not be compared now still counts as different. `error`: why nothing
    could be compared."""

    begun: str
    ended: str = ""
    by: str = ""
    seconds: float = 0.0
    rows: int = 0
    results: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[NotEqual, ...] = ()
    error: str = ""
    left_out: tuple[str, ...] = ()
    of_others: int = 0

    @property
    def different(self) -> list[NotEqual]:
        return [each for each in self.tables if each.since]

    @property
    def unproved(self) -> list[NotEqual]:
        """The tables that may or may not be equal."""
        return [each for each in self.tables if each.result in ("error", "behind")]

    @property
    def word(self) -> str:
        """The overall result in one word."""
        if self.error:
            return "error"
        if self.different:
            return "different"
        if self.unproved:
            has_failed = any(each.result == "error" for each in self.unproved)
            return "error" if has_failed else "behind"
        return "changing" if self.results.get("changing") else "equal"

    def to_fields(self) -> dict[str, Any]:
        return {**camel_case_fields(self), "result": self.word}


def last_verify(
    reports: Sequence[TableReport],
    before: LastVerify | None,
    begun: str,
    ended: str,
    by: str,
    may_belong: Callable[[str], bool] = lambda _: True,
) -> LastVerify:
    """The result to store after a verify of all tables. `before`: the previous result.
    `may_belong`: whether a target table without a report may still be one of the task's."""
    known = {}
    if before:
        known = {each.table: each for each in before.different}
    found = []
    results = Counter[str]()
    seconds = 0.0
    rows = 0
    for report in reports:
        results[report.result] += 1
        seconds += report.seconds
        rows += report.source_rows
        earlier = known.get(report.target)
        # Rows that keep changing do not count as different, but they end no known difference.
        if report.result != "equal" and (earlier or report.result != "changing"):
            found.append(_found(report, earlier, ended))
    for name in sorted(known.keys() - {report.target for report in reports}):
        # Otherwise a table that can no longer be seen would end the alarm.
        if may_belong(name):
            results["error"] += 1
            found.append(replace(known[name], result="error", error=UNSEEN))
    # Tables that differ come first, so that TABLES_KEPT never cuts them before others.
    found.sort(key=lambda each: (not each.since, each.table))
    # Otherwise a table that is not kept, and cannot be compared the next time, would be forgotten.
    more = [
        replace(each, error=NOT_KEPT if each.error else "")
        for each in found[TABLES_KEPT:DIFFERENT_KEPT]
        if each.since
    ]
    return LastVerify(
        begun,
        ended,
        by,
        round(seconds, 1),
        rows,
        dict(sorted(results.items())),
        (*found[:TABLES_KEPT], *more),
        left_out=tuple(_left_out(reports)[:COLUMNS_KEPT]),
        of_others=sum(report.of_others for report in reports),
    )


def _left_out(reports: Sequence[TableReport]) -> list[str]:
    return [f"{report.target}.{name}" for report in reports for name in report.left_out]


def _found(report: TableReport, earlier: NotEqual | None, ended: str) -> NotEqual:
    """A table that is not equal. `earlier`: what a verify before has found there."""
    differences, since = report.differences, ""
    if report.result == "different":
        since = ended
        if earlier:
            since = earlier.since
    # Not known to be equal now, so it still counts as different.
    elif earlier:
        differences, since = earlier.differences, earlier.since
    error = (report.error or report.doubt)[:LONGEST_ERROR]
    return NotEqual(report.target, report.result, differences, since, error)


def failed_verify(
    error: str, before: LastVerify | None, begun: str, ended: str, by: str
) -> LastVerify:
    """The result to store after a verify that failed. Tables that differed before still count as
    different."""
    # Otherwise an outage during a verify would end the alarm of a table that differs.
    tables = tuple(before.different) if before else ()
    return LastVerify(begun, ended, by, tables=tables, error=error[:LONGEST_ERROR])


def line_of(last: LastVerify) -> str:
    """The results in one line."""
    counts = ", ".join(f"{count:,} {word}" for word, count in last.results.items())
    why = ""
    if last.error:
        why = f": {last.error}"
    elif counts:
        why = f" (tables: {counts})"
    return (
        f"verify by {last.by or '?'}, ended {last.ended or '?'} UTC: {last.word}{why}, "
        f"{last.rows:,} rows, {last.seconds:,.1f} s{''.join(f'; {each}' for each in unknown(last))}"
    )


def unknown(last: LastVerify) -> list[str]:
    """What the results do not say anything about, in words."""
    found = []
    if last.left_out:
        named = ", ".join(last.left_out[:NAMED])
        if len(last.left_out) > NAMED:
            named += " and more"
        found.append(f"columns not compared: {named}")
    if last.of_others:
        found.append(f"rows that may be of other tasks, not counted: {last.of_others:,}")
    return found


def sentence_of_different(last: LastVerify, task_id: str) -> str:
    """A sentence for operators about tables that differ; empty where none do."""
    found = last.different
    if not found:
        return ""
    parts = []
    for each in found[:NAMED]:
        since = ""
        if each.result == "changing":
            since = ", not proved since, as rows kept changing"
        parts.append(f"{each.table} ({each.differences:,} rows{since})")
    named = ", ".join(parts)
    if len(found) > NAMED:
        named += f" and {len(found) - NAMED:,} more"
    are = "table differs" if len(found) == 1 else "tables differ"
    return (
        f"{len(found):,} target {are} from the source, as the verify of {last.ended} UTC has "
        f"found: {named}; cdcbus verify {task_id} shows the rows, with --repair it sends "
        "them again"
    )


def sentence_of_unproved(last: LastVerify) -> str:
    """The same about tables that could not be compared."""
    if last.error:
        return f"the verify of {last.ended} UTC could not be done: {last.error}"
    found = last.unproved
    if not found:
        return ""
    parts = []
    for each in found[:NAMED]:
        why = each.error or "changes up to then had not arrived, or no time was left to look again"
        parts.append(f"{each.table}: {why}")
    if len(found) > NAMED:
        parts.append(f"and {len(found) - NAMED:,} more")
    are = "table is" if len(found) == 1 else "tables are"
    return (
        f"the verify of {last.ended} UTC could not tell whether {len(found):,} target {are} equal: "
        + "; ".join(parts)
    )


@dataclass(frozen=True, slots=True)
class Begun:
    """When the schedule was last begun or fulfilled. `at`: epoch seconds. `is_over` False: a verify
    began then, and its node has not seen its end. `stamp`: the same time as text, which the verify
    puts into its results."""

    at: float
    stamp: str = ""
    node_id: str = ""
    is_over: bool = True


class VerifyNodes:
    """The stored results of verifies. Usable while its client is. All calls raise
    PositionUnavailable and PositionError; damaged results count as none."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def last(self, task_id: str) -> LastVerify | None:
        node = get_node(self._client, _path(task_id))
        # Its child may exist before its own data do.
        if node is None or not node.text("begun"):
            return None
        return _last(node)

    def put_last(self, task_id: str, last: LastVerify) -> None:
        put_node(self._client, _path(task_id), camel_case_fields(last))

    def begun(self, task_id: str) -> Begun | None:
        node = get_node(self._client, f"{_path(task_id)}/begun")
        if node is None:
            return None
        at = node.real("at")
        if at is None:
            return None
        # A missing field counts as over: the schedule must not wait for an end that never comes.
        is_over = node.fields.get("isOver") is not False
        return Begun(at, node.text("stamp"), node.text("nodeId"), is_over)

    def put_begun(self, task_id: str, begun: Begun) -> None:
        put_node(self._client, f"{_path(task_id)}/begun", camel_case_fields(begun))


def _path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/verify"


def _last(node: JsonNode) -> LastVerify:
    results = node.fields.get("results")
    counts = {}
    if isinstance(results, dict):
        for word, count in results.items():
            if isinstance(count, int):
                counts[word] = count
    names = node.fields.get("leftOut")
    left_out = list[str]()
    if isinstance(names, list):
        left_out += map(str, names)
    stored = node.fields.get("tables")
    tables = list[NotEqual]()
    if isinstance(stored, list):
        tables += filter(None, map(_not_equal, stored))
    return LastVerify(
        node.text("begun"),
        node.text("ended"),
        node.text("by"),
        node.real("seconds") or 0.0,
        node.number("rows"),
        counts,
        tuple(tables),
        node.text("error"),
        tuple(left_out),
        node.number("ofOthers"),
    )


def _not_equal(fields: object) -> NotEqual | None:
    known = asdict(NotEqual("", ""))
    if not isinstance(fields, dict) or "table" not in fields:
        return None
    # Other members are of a newer cdcbus.
    taken = {name: fields.get(name, default) for name, default in known.items()}
    # `type` and not `isinstance`, as a bool would pass for an int.
    if list(map(type, taken.values())) != list(map(type, known.values())):
        return None
    return NotEqual(**taken)

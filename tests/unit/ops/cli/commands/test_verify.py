"""What `cdcbus verify` prints, asks and exits with."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.commands.verify import lines_of
from cdcbus.ops.cli.main import main
from cdcbus.ops.services import zookeeper_client
from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.plugins.rowchange import Op
from cdcbus.tasks.control import source_of
from cdcbus.tasks.verify import repair as repairs
from cdcbus.tasks.verify import run
from cdcbus.tasks.verify.compare import Options
from cdcbus.tasks.verify.last import VerifyNodes, last_verify
from cdcbus.tasks.verify.repair import Planned
from cdcbus.tasks.verify.report import Example, Kind, TableReport
from cdcbus.tasks.zookeeper import audit
from tests.support.memory_zookeeper import MemoryZooKeeper


def report(**fields: Any) -> TableReport:
    return TableReport("shop.orders", ["shop.orders"], **fields)


def different(*examples: Example) -> TableReport:
    found = report(examples=list(examples))
    found.counts[Kind.MISSING] = 2
    return found


class World:
    """A task whose tables have these reports. `published`: how many rows each step of a repair
    sends; `refusal`: why there is none; `audited`: what was noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *reports: TableReport) -> None:
        self.reports = reports
        self.error: Exception | None = None
        self.zookeeper = MemoryZooKeeper()
        self.refusal = ""
        self.published: list[int] = []
        self.kinds: Collection[Kind] = ()
        self.audited: list[str] = []
        self.planned = [Planned(Op.INSERT, "shop.orders", "orders", {"id": "1", "part": None})]
        self.options: Options | None = None
        self.logs_in_to_send = self.needs_all_tasks = False
        self.asked: tuple[Sequence[str], str] | None = None
        monkeypatch.setattr(run, "opened", self._opened)
        monkeypatch.setattr(run, "verify", self._verify)
        monkeypatch.setattr(audit, "audited", self._audited)
        monkeypatch.setattr(repairs, "refusal", lambda _: self.refusal)
        monkeypatch.setattr(repairs, "planned", self._planned)
        monkeypatch.setattr(repairs, "repairable", lambda *_: [])
        monkeypatch.setattr(repairs, "repair", self._repair)

    def run(self, *words: str, answer: str = "") -> Result:
        return CliRunner().invoke(main, ["verify", "7", *words], input=answer)

    @contextmanager
    def _opened(self, *_: object, is_repairing: bool, is_sending: bool) -> Iterator[Any]:
        self.logs_in_to_send, self.needs_all_tasks = is_sending, is_repairing
        yield SimpleNamespace(zookeeper=self.zookeeper, lag=None, task=SimpleNamespace(task_id="7"))

    def _verify(
        self, _: object, options: Options, tables: Sequence[str], where: str, told: Any
    ) -> Iterator[Any]:
        self.options, self.asked = options, (tables, where)
        for each in self.reports:
            told(each.target, 5, 10)
            comparison = SimpleNamespace(
                report=each, different=each.differences, look_again=lambda each=each: _equal(each)
            )
            yield each, None if each.error else comparison
        if self.error:
            raise self.error

    def _planned(self, _: object, kinds: Collection[Kind]) -> list[Planned]:
        self.kinds = kinds
        return self.planned

    def _repair(self, *_: object) -> Iterator[list[Planned]]:
        for count in (2, 1):
            self.published.append(count)
            yield self.planned * count

    @contextmanager
    def _audited(self, _: object, by: str, what: str, on: str) -> Iterator[None]:
        self.audited.append(f"{what}, {on}")
        yield


def _equal(found: TableReport) -> None:
    found.counts = dict.fromkeys(Kind, 0)


@pytest.mark.parametrize(
    ("reports", "wanted"),
    [
        ([report()], 0),
        ([report(), different()], 1),
        ([report(behind=1)], 1),
        ([report(is_cut=True)], 1),
        ([report(changing=1)], 0),
        ([different(), report(error="no such table")], 2),
    ],
)
def test_the_exit_code_says_what_is_known(
    monkeypatch: pytest.MonkeyPatch, reports: list[TableReport], wanted: int
) -> None:
    assert World(monkeypatch, *reports).run().exit_code == wanted
    assert World(monkeypatch, *reports).run("--json").exit_code == wanted


def test_what_cannot_be_compared_exits_with_2_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, report())
    world.error = ConfigError("the source is away")
    plain, as_json = world.run(), world.run("--json")
    assert plain.exit_code == as_json.exit_code == 2
    assert "the source is away" in plain.stderr
    found = json.loads(as_json.stdout)
    assert found["error"] == "the source is away"
    assert [table["result"] for table in found["tables"]] == ["equal"]


def test_an_unexpected_error_is_not_taken_for_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, report())
    world.error = RuntimeError("secret")
    result = world.run()
    assert result.exit_code == 2
    assert "unexpected RuntimeError" in result.stderr
    assert "secret" not in result.output


def test_neither_is_an_error_of_the_settings_or_of_zookeeper(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(monkeypatch, report())
    assert world.run("--config", str(tmp_path / "none.properties")).exit_code == 2

    def away(*_: object) -> object:
        raise PositionUnavailable("ZooKeeper is away")

    monkeypatch.setattr(source_of, "consumer_task", away)
    result = world.run("--last")
    assert (result.exit_code, result.stderr) == (2, "ZooKeeper is away\n")


def test_options_reach_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, report())
    words = ["--sample", "5%", "--patience", "3", "--throttle", "9", "--show-values"]
    world.run(*words, "--table", "a", "--table", "b", "--where", "id > 1")
    assert world.options == Options(0.05, 3.0, 9, True)
    assert world.asked == (("a", "b"), "id > 1")


@pytest.mark.parametrize("share", ["5", "0%", "101%", "x%", "-1%"])
def test_a_sample_is_a_percentage(monkeypatch: pytest.MonkeyPatch, share: str) -> None:
    refused = World(monkeypatch).run("--sample", share)
    assert refused.exit_code == 2
    assert "expected a percentage; example: 5%" in refused.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--dry-run"], "--dry-run and --yes go with --repair"),
        (["--yes"], "--dry-run and --yes go with --repair"),
        (["--json", "--repair"], "--json cannot ask"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, words: list[str], why: str
) -> None:
    refused = World(monkeypatch, report()).run(*words)
    assert refused.exit_code == 2
    assert why in refused.output


# repair


def test_without_repair_nothing_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, different())
    world.run()
    assert (world.published, world.audited) == ([], [])
    assert not world.needs_all_tasks


def test_a_repair_asks_publishes_and_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, different())
    done = world.run("--repair", answer="y\n")
    assert done.exit_code == 0
    assert "INSERT shop.orders id='1', part=NULL to topic orders" in done.output
    assert "Publish 1 row of shop.orders from the source, 0 of them as deletes?" in done.output
    assert "3 rows published; this is the result after it" in done.output
    assert world.audited == ["verify --repair: 1 rows of shop.orders, task 7"]


def test_a_repair_that_is_not_wanted_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, different())
    done = world.run("--repair", answer="n\n")
    assert (done.exit_code, world.published, world.audited) == (1, [], [])
    assert "not repaired: declined" in done.output


def test_a_dry_run_shows_what_would_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, different())
    world.planned *= 103
    done = world.run("--repair", "--dry-run")
    assert done.output.count("INSERT shop.orders") == 100
    assert "and 3 more" in done.output
    assert (done.exit_code, world.published) == (1, [])
    assert not world.logs_in_to_send and world.needs_all_tasks


def test_a_repair_that_is_agreed_to_beforehand_does_not_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, different())
    [found] = json.loads(world.run("--repair", "--yes", "--json").stdout)["tables"]
    assert (found["published"], found["result"]) == (3, "equal")
    assert world.logs_in_to_send
    assert found["planned"][0]["key"] == {"id": "1", "part": None}


def test_a_table_that_cannot_be_repaired_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, different())
    world.refusal = "it has no key"
    done = world.run("--repair", "--yes")
    assert "not repaired: it has no key" in done.output
    assert (done.exit_code, world.published) == (1, [])


def test_where_no_row_can_be_sent_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, different())
    world.planned = []
    assert "Publish" not in world.run("--repair").output
    assert world.audited == []


# what is printed


def test_an_equal_table_is_one_line() -> None:
    found = report(source_rows=1234, target_rows=1234, chunks=2, seconds=0.26)
    assert lines_of(found) == [
        "shop.orders: equal, 1,234 rows at the source, 1,234 at the target, 2 chunks, 0.3 s"
    ]


def test_of_a_table_that_was_not_compared_only_the_reason_is_told() -> None:
    assert lines_of(report(error="it is not there", source_rows=5)) == [
        "shop.orders: error",
        "  it is not there",
    ]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"chunks_skipped": 1000}, "1,000 chunks skipped (--sample)"),
        ({"is_cut": True}, "the rest of the table was not read"),
        ({"changing": 2}, "2 rows kept changing and are not known to be equal"),
        ({"behind": 3}, "3 rows differ, but the changes up to now have not arrived"),
        ({"repaired": 4}, "4 rows published; this is the result after it"),
        ({"changing": 1}, "1 row kept changing and is not known to be equal"),
        ({"behind": 1}, "1 row differs, but the changes up to now have not arrived"),
        ({"repaired": 1}, "1 row published; this is the result after it"),
        (
            {"behind": 2, "is_partial": True},
            "2 rows differ, but the task reads only some partitions",
        ),
        ({"not_repaired": "why"}, "not repaired: why"),
        ({"of_others": 2, "others": ("8",)}, "2 rows that only the target has are not counted"),
        ({"of_others": 1, "others": ("8", "9")}, "is not counted: rows of other tasks (8, 9)"),
        ({"left_out": ("a", "b")}, "not all source tables have them: a, b"),
    ],
)
def test_what_is_not_known_of_a_table_is_said(fields: dict[str, Any], text: str) -> None:
    assert text in lines_of(report(**fields))[1]


@pytest.mark.parametrize(
    ("example", "text"),
    [
        (Example(Kind.MISSING, {"id": "1", "part": None}), "missing id='1', part=NULL"),
        (Example(Kind.EXTRA, {}, "00ff"), "extra row 00ff"),
        (Example(Kind.DIFFERENT, {"id": "1"}, "", ("a", "b")), "different id='1': a, b"),
        (
            Example(Kind.DIFFERENT, {"id": "1"}, "", ("a",), {"a": "x"}, {"a": None}),
            "different id='1': a: 'x' at the source, NULL at the target",
        ),
        (Example(Kind.EXTRA, {"id": "1"}, "", (), None, {"id": "1"}), "extra id='1'"),
        (
            Example(Kind.MISSING, {"id": "1"}, "", (), {"id": "1", "a": "x", "b": None}, None),
            "missing id='1': a='x', b=NULL",
        ),
    ],
)
def test_a_row_that_differs_is_told_by_its_key(example: Example, text: str) -> None:
    assert lines_of(different(example))[1:] == ["  2 missing", f"  {text}"]


def test_what_was_found_of_all_tables_of_a_task_in_zookeeper_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, report(), different())
    nodes = VerifyNodes(world.zookeeper)
    for words in (("--table", "orders"), ("--where", "id = 1"), ("--sample", "5%")):
        world.run(*words)
        assert nodes.last("7") is None
    world.run()
    last = nodes.last("7")
    assert last is not None
    assert (last.word, last.results) == ("different", {"different": 1, "equal": 1})
    world.run("--repair", "--yes")
    last = nodes.last("7")
    assert last is not None
    assert last.word == "equal"


def test_that_it_cannot_be_kept_does_not_change_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, different())
    world.zookeeper.is_silent = True
    found = world.run()
    assert found.exit_code == 1
    assert "the result is not kept" in found.stderr


@pytest.mark.parametrize(
    ("reports", "code", "lines"),
    [
        (None, 2, ["task 7 has not been verified yet"]),
        ([report()], 0, ["equal (tables: 1 equal)"]),
        ([different()], 1, ["shop.orders: different, 2 rows, since 2024-05-01 03:04:05 UTC"]),
        ([report(behind=1)], 1, ["shop.orders: behind, 0 rows"]),
        ([report(error="away")], 2, ["shop.orders: error, 0 rows: away"]),
    ],
)
def test_the_last_verify_is_shown_and_its_exit_code_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
    reports: list[TableReport] | None,
    code: int,
    lines: list[str],
) -> None:
    zookeeper, stamp = MemoryZooKeeper(), "2024-05-01 03:04:05"
    if reports is not None:
        VerifyNodes(zookeeper).put_last("7", last_verify(reports, None, stamp, stamp, "n1"))

    @contextmanager
    def client(_: object) -> Iterator[MemoryZooKeeper]:
        yield zookeeper

    monkeypatch.setattr(zookeeper_client, "bus_client", client)
    monkeypatch.setattr(source_of, "consumer_task", lambda word, *_: SimpleNamespace(task_id=word))
    found = CliRunner().invoke(main, ["verify", "7", "--last"])
    assert found.exit_code == code
    for line in lines:
        assert line in found.output
    shown = CliRunner().invoke(main, ["verify", "7", "--last", "--json"])
    assert shown.exit_code == code
    assert (json.loads(shown.stdout) is None) == (reports is None)


def test_to_prune_is_to_send_deletes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, different())
    assert world.run("--prune", "--dry-run").exit_code == 1
    assert world.kinds == (Kind.EXTRA,)
    assert world.published == []
    world.run("--prune", "--yes")
    assert world.published == [2, 1]
    assert world.audited == ["verify --prune: 1 rows of shop.orders, task 7"]
    both = World(monkeypatch, different())
    both.run("--repair", "--prune", "--yes")
    assert Kind.MISSING in both.kinds
    assert world.run("--yes").exit_code == 2

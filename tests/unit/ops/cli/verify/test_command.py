"""What `cdcbus verify` prints, asks and exits with."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.ops.services import zookeeper_client
from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.control import source_of
from cdcbus.tasks.verify.compare import Options
from cdcbus.tasks.verify.last import VerifyNodes, last_verify
from cdcbus.tasks.verify.report import TableReport
from tests.unit.ops.cli.runs import in_memory
from tests.unit.ops.cli.verify.verifying import World, different, report


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
    assert not world.is_at_rest
    world.run("--target-at-rest")
    assert world.is_at_rest


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


# what is printed


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


def test_what_one_of_several_fetch_tasks_sends_is_not_kept_as_the_result_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would end the alarm of a table that another one feeds, and that differs."""
    world = World(monkeypatch, different())
    nodes = VerifyNodes(world.zookeeper)
    world.run("--source", "5")
    known = nodes.last("7")
    assert known is not None
    world.reports = (report(),)
    world.further = [SimpleNamespace(task_id="6")]
    found = world.run("--source", "5")
    assert found.exit_code == 0
    assert "not kept for --last, as --source leaves out what fetch task 6 sends" in found.stderr
    world.further, world.unread_feeds = [], {"4": None}
    assert "fetch task 4 sends" in world.run("--source", "5").stderr
    assert nodes.last("7") == known


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
        ([report(left_out=("at",))], 0, ["columns not compared: shop.orders.at"]),
        ([report(changing=1)], 0, ["changing (tables: 1 changing)"]),
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
    zookeeper, stamp = in_memory(monkeypatch, zookeeper_client), "2024-05-01 03:04:05"
    if reports is not None:
        VerifyNodes(zookeeper).put_last("7", last_verify(reports, None, stamp, stamp, "n1"))

    monkeypatch.setattr(source_of, "consumer_task", lambda word, *_: SimpleNamespace(task_id=word))
    found = CliRunner().invoke(main, ["verify", "7", "--last"])
    assert found.exit_code == code
    for line in lines:
        assert line in found.output
    shown = CliRunner().invoke(main, ["verify", "7", "--last", "--json"])
    assert shown.exit_code == code
    assert (json.loads(shown.stdout) is None) == (reports is None)

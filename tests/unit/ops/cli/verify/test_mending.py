"""--repair and --prune."""

from __future__ import annotations

import json

import pytest

from cdcbus.tasks.verify.report import Kind
from tests.unit.ops.cli.verify.verifying import World, different


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


def test_a_key_that_the_source_cannot_hold_is_left_to_the_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told before the question, and again in the result."""
    world = World(monkeypatch, different())
    world.unheld = [{"id": f"{number}.5"} for number in range(22)]
    done = world.run("--repair", "--dry-run")
    line = "the source cannot hold this key: delete it at the target: id='0.5'"
    assert done.output.count(line) == 2
    assert done.output.count("and 2 more keys that the source cannot hold") == 2
    world = World(monkeypatch, different())
    world.planned, world.unheld = [], [{"id": "1.5"}]
    done = world.run("--repair", "--yes", "--json")
    [found] = json.loads(done.stdout)["tables"]
    assert (done.exit_code, found["notHeld"], world.published) == (1, [{"id": "1.5"}], [])

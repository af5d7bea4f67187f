"""`cdcbus dlq`: lists, shows, replays and drops dead letters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import Result

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.dead_letters import replay_letters
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.znode import take_node
from tests.integration.consumer.records.dead_letters.letters import dead_letter, last

pytestmark = pytest.mark.integration


def test_list_and_show_print_letters(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result]
) -> None:
    assert run("list").output == "no dead letters are open\n"
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 1)])
    listed = run("list")
    assert f"{task.task_id}/0/1" in listed.output
    assert "first" not in listed.output  # rows are shown on demand only
    [one, other] = json.loads(run("list", "--json").output)
    assert (one["record"], other["offset"], one["reason"]) == (f"{task.task_id}/0/0", 1, "no JSON")
    [shown] = json.loads(run("show", f"{task.task_id}/0/1", "--json").output)
    assert (shown["key"], shown["headers"], shown["value"]) == (
        "base64:/g==",
        {"from": "outside"},
        "base64:/wA=",
    )
    assert "value: first" in run("show").output


def test_replay_puts_the_record_to_the_end_of_its_partition_and_resolves_the_letter(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result]
) -> None:
    topic.put([dead_letter(task, 0, 1), dead_letter(task, 1, 0)])
    assert run("replay", f"{task.task_id}/0/1", "--yes").output == "1 records replayed\n"
    record = last(task, 0)
    headers = dict(record.headers() or [])
    assert (record.offset(), record.key(), record.value()) == (2, b"\xfe", b"\xff\x00")
    assert (headers["from"], headers["cdcbus.replayed.offset"]) == (b"outside", b"1")
    assert "cdcbus.replayed" in headers
    assert [each.dead_letter.partition for each in topic.dead_letters()] == [1]
    topic.put([dead_letter(task, 0, 2)])  # refused again
    assert [each.headers for each in topic.dead_letters()] == [[("from", b"outside")], []]


def test_drop_resolves_letters_after_a_question(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result]
) -> None:
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 0, 1)])
    assert run("drop", "--all", input="n\n").exit_code != 0
    assert len(topic.dead_letters()) == 2
    assert [
        each["record"] for each in json.loads(run("drop", "--all", "--yes", "--json").stdout)
    ] == [
        f"{task.task_id}/0/0",
        f"{task.task_id}/0/1",
    ]
    assert topic.dead_letters() == []
    assert last(task, 0).offset() == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["shop/0/77"], "no open dead letter: shop/0/77"),
        ([], "or give --all"),
        (["shop-0-1"], "expected TOPIC/PARTITION/OFFSET"),
    ],
)
def test_records_that_are_not_there_are_refused(
    run: Callable[..., Result], words: list[str], sentence: str
) -> None:
    refused = run("drop", *words, "--yes")
    assert refused.exit_code != 0
    assert sentence in refused.output


def test_a_letter_that_somebody_resolves_during_the_question_is_not_replayed(
    task: LoadTask,
    topic: DeadLetterTopic,
    run: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic.put([dead_letter(task, 0, 0), dead_letter(task, 1, 0)])

    def confirm(*_: object, **__: object) -> bool:
        topic.drop(topic.dead_letters()[:1])
        return True

    monkeypatch.setattr("click.confirm", confirm)
    refused = run("replay", "--all", "--force")
    assert refused.exit_code == 1
    assert f"{task.task_id}/0/0 is no longer open" in refused.output
    assert [last(task, number).offset() for number in (0, 1)] == [1, 0]  # nothing is done
    assert [each.dead_letter.partition for each in topic.dead_letters()] == [1]


@pytest.mark.parametrize("force", [False, True])
def test_two_replays_of_one_letter_at_once_append_its_record_once(
    task: LoadTask, topic: DeadLetterTopic, zookeeper: str, force: bool
) -> None:
    """As a second click does. A record of a table without a key would become two rows."""
    topic.put([dead_letter(task, 0, 0)])
    letters = topic.dead_letters()
    client = connect(zookeeper)

    def replay() -> str:
        try:
            with DeadLetterTopic(task) as own:
                replay_letters(client, own, task.task_id, letters, "ada", force)
        except ConfigError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        told = sorted(pool.map(lambda _: replay(), range(2)))
    client.stop()
    client.close()
    assert (last(task, 0).offset(), told[0]) == (2, "")
    # The second one comes during the first one, or after it.
    assert re.search("are being replayed by somebody else|/0/0 is no longer open", told[1])


def test_another_process_that_replays_is_named_and_nothing_is_replayed_beside_it(
    task: LoadTask, topic: DeadLetterTopic, run: Callable[..., Result], zookeeper: str
) -> None:
    topic.put([dead_letter(task, 0, 0)])
    other = connect(zookeeper)
    path = f"/datas/task/{task.task_id}/replaying"
    assert take_node(other, path, {"by": "ada@far"})
    refused = run("replay", "--all", "--yes", "--force")
    assert refused.exit_code == 1
    assert f"are being replayed by somebody else, as {path} says" in refused.output
    assert (last(task, 0).offset(), len(topic.dead_letters())) == (1, 1)
    # as when it was killed
    other.stop()
    other.close()
    assert run("replay", "--all", "--yes").exit_code == 0
    assert (last(task, 0).offset(), len(topic.dead_letters())) == (2, 0)


def test_a_replay_that_was_killed_before_its_letters_were_resolved_is_not_repeated(
    task: LoadTask,
    topic: DeadLetterTopic,
    run: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic.put([dead_letter(task, 0, 0)])
    monkeypatch.setattr(DeadLetterTopic, "drop", lambda *_: None)
    assert run("replay", "--all", "--yes").exit_code == 0
    monkeypatch.undo()
    refused = run("replay", "--all", "--yes")
    assert refused.exit_code == 1
    assert f"was replayed already, as record {task.task_id}/0/2" in refused.output
    assert (last(task, 0).offset(), len(topic.dead_letters())) == (2, 1)
    assert run("drop", "--all", "--yes").exit_code == 0

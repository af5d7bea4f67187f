"""The example of a source on real servers: its rows are in Kafka before its position is stored,
and none is missing or comes twice, however often the task starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main
from cdcbus.plugins.contracts import NO_MARK, Mark, PositionStore
from cdcbus.plugins.errors import PositionLost, UnreadableEvent
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.added.run import run
from cdcbus.producer.config import AddedSource, FetchTask, FilterConfig, SourceConfig
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from tests.integration.producer.running import Running
from tests.support.processes.plugins import add_example
from tests.support.topics.committed import committed, committed_canal

pytestmark = pytest.mark.integration

Add = Callable[..., BinlogPosition]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    add_example("source", tmp_path / "example", monkeypatch)
    folder = tmp_path / "changes"
    folder.mkdir()
    return folder


@pytest.fixture
def add(folder: Path) -> Add:
    """Adds an INSERT for each number to a file; gives the place behind them."""

    def add(name: str, *numbers: int, table: str = "t") -> BinlogPosition:
        row = {"op": "INSERT", "table": f"shop.{table}", "key": ["id"]}
        with (folder / name).open("a") as file:
            for number in numbers:
                file.write(json.dumps({**row, "after": {"id": str(number)}}) + "\n")
        return BinlogPosition(name, (folder / name).stat().st_size)

    return add


@pytest.fixture(params=[False, True], ids=["acknowledged", "in-transactions"])
def task(
    request: pytest.FixtureRequest,
    folder: Path,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
) -> FetchTask:
    make_topic(name)
    publish = PublishConfig(kafka, name, "canalRow", transactional_id=name if request.param else "")
    source = AddedSource("exampleFiles", {"folder": str(folder)}, "earliest")
    return FetchTask(
        name,
        name,
        SourceConfig((), "", added=source),
        FilterConfig(),
        publish,
        position_interval_seconds=0.02,
    )


def ids(kafka: str, topic: str) -> list[int]:
    """The value of `id` in each record that is committed, in order."""
    return [int(record["data"][0]["id"]) for record in committed_canal(kafka, topic)]


class RunningSource(Running):
    def _run(self) -> None:
        try:
            run(self._task, self._positions, self.schemas, self.stop, self.status, self._note)
        except BaseException as error:
            self._error = error


def test_a_restart_goes_on_without_a_gap_and_without_a_repetition(
    add: Add, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    with RunningSource(task, positions) as running:
        running.until_stored(add("1.jsonl", *range(1500)))
    add("1.jsonl", 1500)
    while_stopped = add("2.jsonl", 1501, 1502)
    with RunningSource(task, positions) as running:
        running.until_stored(while_stopped)
        running.until_stored(add("3.jsonl", 1503))
    assert ids(kafka, name) == list(range(1504))


def test_no_position_is_stored_before_its_rows_are_in_kafka(
    add: Add,
    task: FetchTask,
    kafka: str,
    name: str,
    positions: ZooKeeperPositions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: dict[int, int] = {}
    for number in range(3000):
        ends[add("1.jsonl", number).pos] = number + 1
    saves: list[tuple[int, int]] = []
    save = ZooKeeperPositions.save

    def watched(self: ZooKeeperPositions, text: str, mark: Mark = NO_MARK) -> None:
        saves.append((BinlogPosition.from_json(text).pos, len(committed(kafka, name))))
        save(self, text, mark)

    monkeypatch.setattr(ZooKeeperPositions, "save", watched)
    with RunningSource(task, positions) as running:
        running.until_stored(BinlogPosition("1.jsonl", max(ends)))
    assert len(saves) > 1
    assert all(held >= ends.get(pos, 0) for pos, held in saves), saves


def test_what_cannot_be_read_stops_the_task_before_it(
    add: Add, folder: Path, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    before = add("1.jsonl", *range(1000))
    (folder / "1.jsonl").write_text((folder / "1.jsonl").read_text() + "?\n")
    add("1.jsonl", 1001)
    with (
        pytest.raises(UnreadableEvent, match=rf"1\.jsonl:{before.pos} is no row change"),
        RunningSource(task, positions) as running,
    ):
        running.ends()
    assert BinlogPosition.from_json(positions.load() or "").pos == before.pos
    assert ids(kafka, name) == list(range(1000))


def test_a_file_that_is_gone_is_a_lost_position(
    add: Add, folder: Path, task: FetchTask, positions: PositionStore
) -> None:
    with RunningSource(task, positions) as running:
        running.until_stored(add("1.jsonl", 1))
    (folder / "1.jsonl").unlink()
    add("2.jsonl", 2)
    with (
        pytest.raises(PositionLost, match=r"has no byte \d+ of 1\.jsonl"),
        RunningSource(task, positions) as running,
    ):
        running.ends()


def test_an_edit_of_the_position_counts_under_the_running_task(
    add: Add,
    task: FetchTask,
    positions: PositionStore,
    store: Callable[[str], None],
    kafka: str,
    name: str,
) -> None:
    with RunningSource(task, positions) as running:
        running.until_stored(add("1.jsonl", 1, 2))
        store(BinlogPosition("1.jsonl", 0).to_json())
        running.until(lambda: running.progress.done == 4)
        running.until_stored(add("2.jsonl", 3))
    assert ids(kafka, name) == [1, 2, 1, 2, 3]


def test_rows_of_several_tables_keep_their_order_in_a_topic_and_filters_hold(
    add: Add, task: FetchTask, positions: PositionStore, kafka: str, name: str
) -> None:
    for number in range(20):
        add("1.jsonl", number, table=("t", "other", "left_out")[number % 3])
    only = replace(task, tables=FilterConfig(excludes=frozenset({"SHOP.LEFT_OUT"})))
    with RunningSource(only, positions) as running:
        running.until_stored(add("1.jsonl", 20))
        assert running.progress.done == 15
    assert ids(kafka, name) == [number for number in range(21) if number % 3 != 2 or number == 20]


@pytest.fixture
def file(
    folder: Path, tmp_path: Path, kafka: str, name: str, make_topic: Callable[..., str]
) -> Iterator[Path]:
    make_topic(name)
    file = tmp_path / "files.properties"
    file.write_text(
        f"taskId={name}\nconsumer.consumerName=exampleFiles\nconsumer.source.database={name}\n"
        f"consumer.source.plugin.folder={folder}\nconsumer.source.plugin.end=true\n"
        f"consumer.offset=earliest\nloader.loaderName=KAFKA_SYNC\nloader.source.topic={name}\n"
        f"loader.source.servers={kafka}\nloader.source.oggJson=false\n"
    )
    yield file


def test_a_task_file_names_it_and_the_run_ends_where_the_source_does(
    add: Add, file: Path, tmp_path: Path, kafka: str, name: str, zookeeper: str
) -> None:
    end = add("1.jsonl", 1, 2)
    cli = CliRunner(env={"CDCBUS_ZOOKEEPER": f"{zookeeper}/cdcbus/producer-test"})
    checked = cli.invoke(main, ["task", "check", str(file), "--strict"])
    assert checked.exit_code == 0, checked.output
    assert "at 1.jsonl:0 by consumer.offset" in checked.output
    for _ in range(2):  # the second one has nothing to do
        ran = cli.invoke(main, ["task", "run", str(file)], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
    assert ids(kafka, name) == [1, 2]
    shown = cli.invoke(main, ["offset", "show", name])
    assert f'"logfileName":"1.jsonl","offset":{end.pos}' in shown.output.replace(" ", "")
    back = cli.invoke(main, ["offset", "reset", str(file), "--to", "1.jsonl:0", "--yes"])
    assert back.exit_code == 0, back.output
    assert f"from 1.jsonl:{end.pos} to 1.jsonl:0" in back.output
    state = tmp_path / "state.json"
    ran = cli.invoke(main, ["task", "run", str(file), "--positions", str(state)])
    assert ran.exit_code == 0, ran.output
    assert ids(kafka, name) == [1, 2, 1, 2]
    assert "1.jsonl" in state.read_text()


def test_a_task_of_zookeeper_keeps_its_settings_and_has_no_snapshots(
    add: Add, file: Path, name: str, zookeeper: str
) -> None:
    add("1.jsonl", 1)
    cli = CliRunner(env={"CDCBUS_ZOOKEEPER": f"{zookeeper}/cdcbus/producer-test"})
    imported = cli.invoke(main, ["task", "import", str(file)])
    assert imported.exit_code == 0, imported.output
    checked = cli.invoke(main, ["task", "check", name, "--strict"])
    assert checked.exit_code == 0, checked.output
    assert "at 1.jsonl:0 by consumer.offset" in checked.output
    refused = cli.invoke(main, ["snapshot", "start", name])
    assert refused.exit_code == 1
    assert "reads from exampleFiles, a source of another package, which has no" in refused.output
    bounded = cli.invoke(main, ["task", "run", name, "--until", "now"])
    assert bounded.exit_code == 1
    assert "exampleFiles is a source of another package, not MySQL or MariaDB" in bounded.output

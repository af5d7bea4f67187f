import errno
import fcntl
import multiprocessing
import os
import resource
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
import pyarrow as pa
import pytest

from cdcbus.plugins.contracts import Mark, PositionStore, SentLog
from cdcbus.plugins.epoch import epoch_text, epochs
from cdcbus.plugins.errors import PositionError, PositionUnavailable
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FetchTask, FilterConfig, SnapshotMode, SourceConfig
from cdcbus.producer.schema.history_codec import FOLLOWED, Followed, followed_text
from cdcbus.producer.snapshot.courses import Courses
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.local.state_file import StateFile, state_file
from cdcbus.tasks.local.stores import (
    FilePositions,
    FileSchemas,
    FileSnapshots,
    bus_identity,
    next_epoch,
    set_position,
)
from tests.contract.position_store import PositionStoreContract
from tests.contract.schema_store import MakeStore, SchemaStoreContract

START = BinlogCoordinates("mysql-bin.000001", 4)
POSITION = '{"logfileName":"mysql-bin.000003","offset":1234}'


class FileHand:
    """An operator with an editor: the task's own process never sees the edit but in the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def store(self) -> PositionStore:
        return FilePositions(StateFile(self._file, "1084"), "shop")

    def set(self, text: str) -> None:
        """To write the same again is no edit of a file: here the number goes with it."""
        fields = self._fields()
        if fields.get("position") == text:
            fields.pop("change", None)
        self._put(fields | {"position": text})

    def delete(self) -> None:
        self._put({name: each for name, each in self._fields().items() if name != "position"})

    def text(self) -> str:
        return str(self._fields()["position"])

    def _fields(self) -> dict[str, Any]:
        if not self._file.exists():
            return {}
        found: dict[str, Any] = orjson.loads(self._file.read_bytes())["swimlanes"]["shop"]
        return found

    def _put(self, fields: dict[str, Any]) -> None:
        whole = {"format": 1, "task": "1084", "swimlanes": {"shop": fields}}
        self._file.write_bytes(orjson.dumps(whole))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "positions.json"


class TestFilePositions(PositionStoreContract):
    @pytest.fixture
    def node(self, file: Path) -> FileHand:
        return FileHand(file)


def test_what_topics_were_given_is_removed_by_an_editor(tmp_path: Path) -> None:
    """As the message of a task says that has stopped for lost records."""
    file = tmp_path / "positions.json"
    store = FilePositions(StateFile(file, "1084"), "shop")
    mark = Mark(rules={"k": "d"}, sent={"t": SentLog.lost()})
    store.save(POSITION, mark)
    text = file.read_text()
    assert text.count('"sent"') == 1
    fields = orjson.loads(text)
    del fields["swimlanes"]["shop"]["written"]["sent"]
    file.write_bytes(orjson.dumps(fields))
    after = FilePositions(StateFile(file, "1084"), "shop")
    assert after.load() == POSITION
    assert after.is_own
    assert after.written is not None
    assert after.written.mark == replace(mark, sent={})


class TestFileSchemas(SchemaStoreContract):
    @pytest.fixture
    def make(self, file: Path) -> MakeStore:
        return lambda: FileSchemas(StateFile(file, "1084"), "shop")


def test_a_position_is_readable_and_comes_back_as_the_same_text(file: Path) -> None:
    store = FilePositions(StateFile(file, "1084"), "shop")
    store.load()
    store.save(POSITION)
    position = orjson.loads(file.read_bytes())["swimlanes"]["shop"]["position"]
    assert position == {"logfileName": "mysql-bin.000003", "offset": 1234}
    after = FilePositions(StateFile(file, "1084"), "shop")
    assert (after.load(), after.is_own) == (POSITION, True)


def test_each_edit_has_a_number_of_its_own(file: Path) -> None:
    hand, numbers = FileHand(file), []
    store = hand.store()
    for text in ("first", "second", "third"):
        hand.set(text)
        assert store.load() == text
        numbers.append(store.position_version)
        assert not store.is_own
    assert sorted(set(numbers)) == numbers


def test_numbers_go_on_growing_where_the_file_is_lost(file: Path) -> None:
    store = FilePositions(StateFile(file, "1084"), "shop")
    store.load()
    store.save("a")
    file.unlink()
    again = FilePositions(StateFile(file, "1084"), "shop")
    assert again.load() is None
    again.save("a")
    assert again.position_version > store.position_version


def test_what_the_only_swimlane_wrote_by_another_name_is_a_trace(file: Path) -> None:
    before = FilePositions(StateFile(file, "1084"), "shop")
    before.load()
    before.save("ours")
    renamed = FilePositions(StateFile(file, "1084"), "other", is_only=True)
    assert (renamed.load(), renamed.trace) == (None, f"{file} (shop)")
    one_of_several = FilePositions(StateFile(file, "1084"), "other")
    assert (one_of_several.load(), one_of_several.trace) == (None, "")
    assert (one_of_several.others(), before.others()) == (["shop"], [])
    set_position(StateFile(file, "1084"), "other", "theirs")
    assert (renamed.load(), renamed.trace) == ("theirs", "")


@pytest.mark.parametrize(
    ("followed", "has_run"),
    [
        (None, False),
        (followed_text(Followed(START, "here", is_whole=True, is_begun=False)), False),
        (followed_text(Followed(START, "here", is_whole=True)), True),
        ('{"logfileName":"mysql-bin.000001","offset":4,"server":"here"}', True),  # earlier releases
        ("damaged", True),
    ],
)
def test_a_schema_history_that_was_read_on_from_is_a_trace(
    file: Path, followed: str | None, has_run: bool
) -> None:
    """A first start stores its tables before its position, and may be cut short between the two."""
    FileSchemas(StateFile(file, "1084"), "shop").save({"shop.orders": "1", FOLLOWED: followed})
    store = FilePositions(StateFile(file, "1084"), "shop")
    assert store.load() is None
    assert (str(file) in store.trace) is has_run


def test_epochs_grow(file: Path) -> None:
    state = StateFile(file, "1084")
    first = next_epoch(state, "shop")
    assert next_epoch(StateFile(file, "1084"), "shop") > first


def test_readers_know_the_epochs_of_a_file_also_after_the_longer_ones_of_earlier_versions(
    file: Path,
) -> None:
    state = StateFile(file, "1084")
    state.change("shop", lambda fields: fields.update(epoch=1795838011060423))
    number = next_epoch(state, "shop")
    told = epoch_text(number, "1084", "shop", bus_identity(state, "shop")).encode()
    value = b'{"epoch":"' + told + b'","data":[]}'
    found = epochs(pa.array([value], pa.binary()), "canalRow")
    assert found is not None
    assert found.to_pylist() == [told]
    # The clock was put back.
    state.change("shop", lambda fields: fields.update(epoch=9_000_000_000_000))
    assert next_epoch(state, "shop") == 9_000_000_000_001


def test_epochs_of_two_files_are_told_apart_and_those_of_a_copy_are_not(
    file: Path, tmp_path: Path
) -> None:
    own = bus_identity(StateFile(file, "1084"), "shop")
    copied, other = tmp_path / "copied.json", tmp_path / "other.json"
    copied.write_bytes(file.read_bytes())
    assert bus_identity(StateFile(copied, "1084"), "shop") == own
    assert bus_identity(StateFile(other, "1084"), "shop") != own


def test_snapshots_are_kept_table_by_table(file: Path) -> None:
    orders, items = TableId("shop", "orders"), TableId("shop", "Items")
    snapshots = FileSnapshots(StateFile(file, "1084"), "shop")
    snapshots.save({orders: TableProgress(TableState.RUNNING, rows=3, after=("3",), until=("9",))})
    snapshots.save({items: TableProgress(TableState.DONE)})
    found = FileSnapshots(StateFile(file, "1084"), "shop").load()
    assert found[orders] == TableProgress(TableState.RUNNING, rows=3, after=("3",), until=("9",))
    assert found[items].state is TableState.DONE
    assert snapshots.wishes() == []


def test_snapshots_that_are_no_longer_in_the_file_are_lost(file: Path) -> None:
    orders, items = TableId("shop", "orders"), TableId("shop", "items")
    state = StateFile(file, "1084")
    snapshots = FileSnapshots(state, "shop")
    assert snapshots.lost() == set()
    snapshots.save({orders: TableProgress(), items: TableProgress()})
    assert snapshots.lost() == set()
    state.change("shop", lambda fields: fields["snapshot"].pop("shop.orders"))
    assert FileSnapshots(StateFile(file, "1084"), "shop").lost() == {orders}
    snapshots.save({items: TableProgress(TableState.DONE), TableId("s", "x"): TableProgress()})
    assert snapshots.lost() == {orders}
    snapshots.save({orders: TableProgress()})
    assert snapshots.lost() == set()


def test_the_entry_that_a_refused_table_is_to_get_has_it_read_once(file: Path) -> None:
    """No command reaches the file, so what the task says names the entry."""
    orders = TableId("shop.eu", "orders")
    state = StateFile(file, "1084")
    task = FetchTask(
        "1084",
        "shop",
        SourceConfig((("h", 1),), "u"),
        FilterConfig((".*",)),
        PublishConfig("k", "t", "canalRow"),
        snapshot=SnapshotMode.INITIAL,
    )

    def courses() -> Courses:
        store = FileSnapshots(state, "shop")
        return Courses(task, store.load(), has_sent=True, start_order=store.start_order)

    first = courses()
    course = first.pending(orders)
    assert course is not None
    first.refuse_unconfirmed(course)
    FileSnapshots(state, "shop").save(first.unsaved)
    reason = course.progress.reason
    assert "cdcbus snapshot" not in reason
    assert f"its entry in `snapshot` of {file} (shop)" in reason
    entry = orjson.loads("{" + reason.partition("(shop), ")[2].partition(", and start")[0] + "}")
    state.change("shop", lambda fields: fields["snapshot"].update(entry))
    again = courses().pending(orders)
    assert again is not None
    assert (again.state, again.progress.is_unconfirmed) == (TableState.WAITING, False)


def test_swimlanes_do_not_touch_each_other(file: Path) -> None:
    state = StateFile(file, "1084")
    shop, bank = FilePositions(state, "shop"), FilePositions(state, "bank")
    for store in (shop, bank):
        store.load()
        store.save(store.path, Mark(True, "id"))
    assert not shop.is_edited()
    assert FilePositions(StateFile(file, "1084"), "bank").load() == bank.path


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("nonsense", "is not a file of positions"),
        ("[]", "is not a file of positions"),
        ('{"format":1,"swimlanes":{}}', "is not a file of positions"),
        ('{"format":2,"task":"1084","swimlanes":{}}', "from an unknown version of cdcbus"),
        ('{"format":1,"task":"7","swimlanes":{}}', "the positions of task 7, not of task 1084"),
    ],
)
def test_any_other_file_is_refused_and_left_as_it_is(file: Path, text: str, why: str) -> None:
    file.write_text(text)
    with pytest.raises(PositionError, match=why), state_file(file, "1084"):
        pass
    assert file.read_text() == text


def test_a_folder_is_no_file_and_a_missing_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(PositionError, match="is not a file"), state_file(tmp_path, "1084"):
        pass
    missing = tmp_path / "gone" / "positions.json"
    with pytest.raises(PositionError, match=r"gone.*No such file"), state_file(missing, "1084"):
        pass


def _hold(file: Path, ready: Any, end: Any) -> None:
    with state_file(file, "1084"):
        ready.set()
        end.wait()


def test_a_second_process_is_refused_until_the_first_ends_however_it_ends(file: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(file, ready, end))
    process.start()
    try:
        assert ready.wait(30)
        link = file.with_name("link.json")
        link.symlink_to(file)
        for name in (file, link):
            with (
                pytest.raises(PositionError, match=f"in use by process {process.pid}"),
                state_file(name, "1084"),
            ):
                pass
    finally:
        process.kill()
        process.join()
    with state_file(file, "1084") as state:
        assert next_epoch(state, "shop")


def test_a_write_that_fails_leaves_the_file_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FilePositions(StateFile(file, "1084"), "shop")
    store.load()
    store.save("before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(PositionUnavailable, match="No space left on device; make room"):
            store.save("after")
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert FilePositions(StateFile(file, "1084"), "shop").load() == "before"
    store.save("after")  # may be repeated
    assert FilePositions(StateFile(file, "1084"), "shop").load() == "after"


def test_a_full_disk_does_not_keep_the_file_from_being_locked(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with state_file(file, "1084") as state:
        with pytest.raises(PositionError, match="in use by another process"):
            state_file(file, "1084").__enter__()
        assert next_epoch(state, "shop")


def test_a_file_system_that_gives_no_locks_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(PositionError, match=r"\.lock cannot be locked: No locks available"),
        state_file(file, "1084"),
    ):
        pass


def test_what_the_task_saves_itself_is_never_an_edit(file: Path) -> None:
    """Also to the thread of the rows, which asks while another one saves."""
    store = FilePositions(StateFile(file, "1084"), "shop")
    store.load()
    over = Event()

    def save() -> None:
        for number in range(100):
            store.save(f"a{number}")
        over.set()

    thread = Thread(target=save)
    thread.start()
    found = []
    while not over.is_set():
        found.append(store.is_edited())
    thread.join()
    assert found
    assert not any(found)


def test_too_many_open_files_pass(tmp_path: Path) -> None:
    """Other parts of the process can have them open, for a while."""
    file = StateFile(tmp_path / "positions", "1084")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open(tmp_path, os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, limits[1]))
    try:
        with pytest.raises(PositionUnavailable, match=r"cannot be written: .*ulimit -n"):
            file.change("shop", lambda fields: fields.update(position=POSITION))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    file.change("shop", lambda fields: fields.update(position=POSITION))
    assert file.swimlanes()["shop"]["position"] == POSITION

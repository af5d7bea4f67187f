from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.errors import ConfigError, SourceRefused
from cdcbus.tasks.control.beside import tasks_beside
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.control.source_of import (
    MappedTable,
    consumer_task,
    feeds_of,
    mapped_tables,
    source_connection,
)
from cdcbus.tasks.control.uses import Uses
from tests.support.processes.bus import fetch_text, load_text, open_bus

pytestmark = pytest.mark.integration


def mapped(
    folder: Path, stack: Addresses, source: Database, name: str, **keys: str
) -> list[MappedTable]:
    (folder / "fetch.properties").write_text(fetch_text(f"{name}f", source, stack.kafka, name))
    load = folder / "load.properties"
    load.write_text(load_text(f"{name}l", stack, name, **keys))
    passwords = {"SOURCE_PASSWORD": source.password, "TARGET_PASSWORD": stack.postgresql.password}
    bus = read_bus_settings({}, environ=passwords, folder=folder)
    (feed,) = feeds_of(str(load), consumer_task(str(load), bus, Uses.WRITE), bus, None)
    with source_connection(feed.fetch.source, 30) as connection:
        return mapped_tables(feed, connection).tables


@pytest.fixture
def two(source_cursor: Cursor) -> None:
    source_cursor.execute(
        "CREATE TABLE orders (id INT UNSIGNED PRIMARY KEY, note TEXT, secret INT)"
    )
    source_cursor.execute("CREATE TABLE kept_out (id INT PRIMARY KEY)")
    source_cursor.execute("CREATE TABLE cdcbus_heartbeat (id INT PRIMARY KEY)")
    source_cursor.execute("CREATE VIEW seen AS SELECT * FROM orders")


@pytest.mark.usefixtures("two")
def test_tables_of_both_filters_come_with_their_target_names(
    tmp_path: Path, stack: Addresses, source: Database, name: str
) -> None:
    keys = {
        "consumer.excludes": f"{name}.kept_out",
        "mapper[0].schema": f"{name},copy",
        "mapper[0].table": "orders,sales",
        "mapper[0].column.note": "remark",
        "mapper[0].ignore": "secret",
    }
    (table,) = mapped(tmp_path, stack, source, name, **keys)
    assert (str(table.source.id), str(table.target)) == (f"{name}.orders", "copy.sales")
    assert table.columns == {"id": "id", "note": "remark"}
    assert table.source.key == ("id",)
    assert [column.mysql_type for column in table.source.columns] == ["int unsigned", "text", "int"]
    assert table.topic == name


@pytest.mark.usefixtures("two")
def test_no_table_at_all_is_an_error(
    tmp_path: Path, stack: Addresses, source: Database, name: str
) -> None:
    with pytest.raises(ConfigError, match="lets no table of its source pass"):
        mapped(tmp_path, stack, source, name, **{"consumer.includes": "no.such"})


@pytest.mark.usefixtures("two")
def test_a_task_in_zookeeper_finds_its_source_there(
    tmp_path: Path, stack: Addresses, source: Database, name: str
) -> None:
    passwords = {"SOURCE_PASSWORD": source.password, "TARGET_PASSWORD": stack.postgresql.password}
    with open_bus(stack.zookeeper, name, tmp_path, **passwords) as opened:
        opened.load(fetch_text(f"{name}f", source, stack.kafka, name))
        opened.load(load_text(f"{name}l", stack, name))
        bus = read_bus_settings({"zookeeper": opened.address}, environ=passwords, folder=tmp_path)
        (feed,) = feeds_of(f"{name}l", consumer_task(f"{name}l", bus, Uses.WRITE), bus, None)
        opened.client.create("/datas/task/broken/dist/shop", b"{", makepath=True)
        # As of a task that runs from a file.
        opened.client.create("/datas/task/state/position", makepath=True)
        beside = tasks_beside(f"{name}l", bus)
    assert feed.fetch.task_id == f"{name}f"
    assert beside.tasks.keys() == {f"{name}f", f"{name}l"}
    assert beside.unread.keys() == {"broken"}


def test_a_source_that_refuses_everywhere_is_told(
    tmp_path: Path, stack: Addresses, source: Database, name: str
) -> None:
    wrong = Database(source.host, source.port, source.user, "wrong", "")
    with pytest.raises(SourceRefused, match="refuses user"):
        mapped(tmp_path, stack, wrong, name)

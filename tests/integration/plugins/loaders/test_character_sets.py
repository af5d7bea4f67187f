"""Keys whose character set is not that of the statements, at MariaDB."""

from __future__ import annotations

from contextlib import closing

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.contracts import JdbcTarget, TableBatch, Writes
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from tests.support.changes.shop import Shop
from tests.support.topics.records import records_of

pytestmark = pytest.mark.integration
PARTITIONS = 1


@pytest.mark.parametrize("charset", ["latin1", "utf8mb3", "utf8mb4", "ucs2", "utf16", "cp1250"])
@pytest.mark.parametrize("other", ["INT", "VARCHAR(9)", "VARCHAR(9) CHARACTER SET latin1", ""])
def test_rows_are_deleted_and_found_by_any_text_of_their_key(
    shop: Shop, charset: str, other: str
) -> None:
    names = ("k", "n") if other else ("k",)
    second = f", n {other} NOT NULL" if other else ""
    shop.mariadb(
        f"CREATE TABLE {shop.name}.t (k VARCHAR(9) CHARACTER SET {charset} NOT NULL{second}, "
        f"PRIMARY KEY ({', '.join(names)}))"
    )
    texts = ["a", "Ä1", "ßb", "é", "it's", "\\"]
    keys = [(text, str(number))[: len(names)] for number, text in enumerate(texts)]
    target = shop.addresses.mariadb
    address = f"jdbc:mysql://{target.host}:{target.port}/{shop.name}"
    with closing(
        make_loader("JdbcBatch", JdbcTarget(address, target.user, target.password))
    ) as loader:
        table = loader.table(TableId(shop.name, "t"))
        assert table is not None

        def there() -> int:
            [(count,)] = shop.mariadb(f"SELECT COUNT(*) FROM {shop.name}.t")
            return int(count)

        for gone in (keys, keys[:1], keys[1:2]):
            with loader.transaction() as transaction:
                transaction.write(TableBatch(table, truncate=True, writes=[Writes(names, keys)]))
            assert there() == len(keys)
            with loader.transaction() as transaction:
                transaction.write(TableBatch(table, deletes=gone))
            assert there() == len(keys) - len(gone)


@pytest.mark.parametrize("charset", ["latin1", "utf8mb3"])
@pytest.mark.parametrize("columns", [("k",), ("k", "n")])
@pytest.mark.parametrize("count", [1, 2, 3, 300])
def test_only_a_row_whose_key_the_column_cannot_hold_becomes_a_dead_letter(
    shop: Shop, charset: str, columns: tuple[str, ...], count: int
) -> None:
    shop.mariadb(
        f"CREATE TABLE {shop.name}.t (k VARCHAR(9) CHARACTER SET {charset} NOT NULL, n INT NOT "
        f"NULL, PRIMARY KEY ({', '.join(columns)}))"
    )
    source = Table(
        TableId(shop.name, "t"), (Column("k", "varchar(9)"), Column("n", "int(11)")), columns
    )
    rows = [{"k": f"é{number}", "n": "1"} for number in range(count - 1)]
    rows.insert(count // 2, {"k": "\N{GRINNING FACE}", "n": "1"})
    values = [CanalRow().to_bytes(RowChange(source, Op.INSERT, None, row)) for row in rows]
    values.append(CanalRow().to_bytes(RowChange(source, Op.DELETE, rows[count // 2], None)))
    target = shop.addresses.mariadb
    address = JdbcTarget(
        f"jdbc:mysql://{target.host}:{target.port}/{shop.name}", target.user, target.password
    )
    task = LoadTask("7", TopicConfig("", ("shop",)), "canalRow", "JdbcBatch", address)
    letters: list[DeadLetter] = []
    partition = TopicPartition("shop", 0)
    with closing(make_loader("JdbcBatch", address)) as loader:
        applier = PartitionApplier(task, CanalRow(), loader, None, letters.extend)
        applier.applied_offsets()
        applier.apply(partition, records_of(list(enumerate(values[:count]))), count, 1)
        assert [letter.record for letter in letters] == [f"shop/0/{count // 2}"]
        assert "errno 12" in letters[0].reason or "errno 1366" in letters[0].reason
        applier.apply(partition, records_of([(count, values[count])]), count + 1, 1)
    assert [letter.record for letter in letters[1:]] == [f"shop/0/{count}"]
    [(there,)] = shop.mariadb(f"SELECT COUNT(*) FROM {shop.name}.t")
    assert int(there) == count - 1

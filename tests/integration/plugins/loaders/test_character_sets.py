"""Keys whose character set is not that of the statements, at MariaDB."""

from __future__ import annotations

from contextlib import closing

import pytest

from cdcbus.plugins.contracts import JdbcTarget, TableBatch, Writes
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import TableId
from tests.support.changes.shop import Shop

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

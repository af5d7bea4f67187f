"""Random tables and rows, written by the loader: equal, and not any more once a cell is another."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pymysql.cursors import SSCursor

from cdcbus.plugins.contracts import JdbcTarget, TableBatch, Writes
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.tasks.verify.sides import open_source
from cdcbus.tasks.verify.sql.source_cells import reading, selected
from tests.integration.producer.decoding.test_round_trip import BOUNDED, Example, examples, quoted
from tests.integration.producer.reading import source_config
from tests.integration.tasks.verify.sql.test_source_cells import make
from tests.integration.tasks.verify.verifying import source_of, verify_still
from tests.support.changes.shop import Shop

pytestmark = pytest.mark.integration
PARTITIONS = 1
EXAMPLES = 40


def test_what_the_loader_has_written_is_equal_and_a_changed_cell_is_not(shop: Shop) -> None:
    """More than 20 s: each example is a table of its own, at the source and at the target."""
    target = shop.addresses.mariadb
    loader = make_loader(
        "JdbcBatch",
        JdbcTarget(
            f"jdbc:mysql://{target.host}:{target.port}/{shop.name}", target.user, target.password
        ),
    )

    @settings(BOUNDED, max_examples=EXAMPLES)
    @given(examples(is_mariadb=True, has_compressed=True), st.data())
    def holds(example: Example, data: st.DataObject) -> None:
        shop.cursor.execute("SET sql_mode = ''")
        table = make(shop.cursor, example)
        try:
            compare(example, table, data)
        finally:
            shop.cursor.execute(f"DROP TABLE {table}")
            shop.mariadb(f"DROP TABLE IF EXISTS {shop.name}.{table}")

    def compare(example: Example, table: str, data: st.DataObject) -> None:
        shop.cursor.execute(f"SHOW CREATE TABLE {table}")
        [(_, ddl)] = shop.cursor.fetchall()
        shop.mariadb(ddl.replace("CREATE TABLE ", f"CREATE TABLE {shop.name}.", 1))
        with open_source(source_config(source_of(shop))) as connection:
            schema, _ = SchemaReader(connection).read(TableId(shop.name, table))
            assert schema is not None
            picked = [selected(column, quoted(column.name)) for column in schema.columns]
            with SSCursor(connection) as rows:
                rows.execute(
                    f"SELECT {', '.join(sql for sql, _ in picked)} FROM {shop.name}.{table}"
                )
                found = list(map(reading([read for _, read in picked]), rows))
        loaded = loader.table(TableId(shop.name, table))
        assert loaded is not None
        names = tuple(column.name for column in schema.columns)
        try:
            with loader.transaction() as transaction:
                transaction.write(TableBatch(loaded, writes=[Writes(names, found)]))
        except TargetRejected:  # what strict mode does not take
            assume(False)
        equal = verify_still(shop, "mariadb", "--table", table, "--show-values")
        assert equal.code == 0, (ddl, equal.output)
        column = data.draw(st.sampled_from(list(example.columns)))
        shop.mariadb(f"UPDATE {shop.name}.{table} SET {quoted(column)} = NULL WHERE id = 0")
        [(was_null,)] = run(shop, f"SELECT {quoted(column)} IS NULL FROM {table} WHERE id = 0")
        differs = verify_still(shop, "mariadb", "--table", table)
        assert differs.code == (0 if was_null else 1), (ddl, column, differs.output)

    with closing(loader):
        holds()


def run(shop: Shop, sql: str) -> list[tuple[int]]:
    shop.cursor.execute(sql)
    return list(shop.cursor.fetchall())

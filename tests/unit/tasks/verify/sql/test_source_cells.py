"""How a source's cells are selected."""

import pytest

from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.tasks.verify.sql.source_cells import selected


@pytest.mark.parametrize(
    ("type_", "sql"),
    [
        ("int(5) unsigned zerofill", "`c` + 0"),
        ("bit(3)", "`c` + 0"),
        ("double(20,5)", "`c` * 1e0"),
        ("enum('zerofill','none')", "`c`"),
        ("set('int zerofill')", "`c`"),
    ],
)
def test_numbers_are_selected_without_padding_or_rounding_and_labels_as_they_are(
    type_: str, sql: str
) -> None:
    assert selected(TableColumn("c", type_), "`c`")[0] == sql

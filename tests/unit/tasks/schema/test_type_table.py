import os
from pathlib import Path

from cdcbus.plugins.loaders.add_column import ORACLE, POSTGRESQL
from tests.support.type_table import BEGIN, END, TYPES, type_table

PAGE = Path(__file__).parents[4] / "docs" / "schema.md"


def test_the_table_of_types_in_the_docs_is_that_of_the_code() -> None:
    """CDCBUS_WRITE_GOLDEN=1 writes it."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    expected = f"{before}{BEGIN}\n\n{type_table()}\n\n{END}{after}"
    if os.environ.get("CDCBUS_WRITE_GOLDEN"):
        PAGE.write_text(expected, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == expected


def test_the_table_has_every_type_that_the_code_knows() -> None:
    shown = {source.partition("(")[0] for group in TYPES for source in group}
    assert {name.partition(" ")[0] for name in (*POSTGRESQL, *ORACLE)} <= shown

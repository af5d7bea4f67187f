from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import Mock

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable, ZeroDate
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import PRIMARY
from cdcbus.tasks.schema import plan
from cdcbus.tasks.schema.collations import folding, pads
from cdcbus.tasks.schema.compare import differences
from cdcbus.tasks.schema.definition import ColumnDefinition, TableDefinition, Target
from cdcbus.tasks.schema.merged import merged
from cdcbus.tasks.schema.source_details import Index, IndexPart

ID = TableId("shop", "orders")


def key(*names: str) -> Index:
    return Index(PRIMARY, True, "BTREE", tuple(map(IndexPart, names)))


def lost(
    source: str,
    target: TargetColumn,
    *,
    dialect: str = "postgresql",
    wanted_key: Index | None = None,
    keys: tuple[str, ...] = (),
    collation: str = "",
    collations: dict[str, str] | None = None,
) -> list[str]:
    column = ColumnDefinition("a", source, "", source_collation=collation)
    wanted = TableDefinition(ID, (ID,), (column,), wanted_key)
    table = TargetTable(ID, {"a": target}, keys, dialect=dialect)
    return [each.what for each in differences(wanted, table, collations or {}) if each.is_lost]


@pytest.mark.parametrize(
    ("source", "type_", "length", "scale"),
    [
        ("bigint unsigned", "bigint", None, None),
        ("bigint", "double precision", None, None),
        ("decimal(10,2)", "numeric", 10, 1),
        ("double", "real", None, None),
        ("text", "bytea", None, None),
        ("blob", "text", None, None),
        ("text", "integer", None, None),
        ("int", "character varying", 10, None),
        ("datetime(6)", "timestamp without time zone", 3, None),
        ("datetime", "date", None, None),
        ("datetime", "interval", None, None),
        ("time", "time without time zone", 6, None),
        ("json", "integer", None, None),
        ("enum('abc','d')", "character varying", 2, None),
        ("set('abc','d')", "character varying", 4, None),
        ("tinyint(1)", "boolean", None, None),
        ("varchar(10)", "character varying", 9, None),
        ("varchar(10)", "bpchar", 20, None),
        ("int", '"bit"', 32, None),
        ("int", "year", None, None),
        ("decimal(4,0)", "year", None, None),
        ("bit(8)", "year", None, None),
        ("varchar(4)", "year", None, None),
        ("decimal(10,2)", "bigint", None, None),
        ("decimal(10,0)", "integer", None, None),
        ("double", "numeric", 30, 10),
        ("float", "int", None, None),
        ("int", "bit", 4, None),
        ("int", "bit varying", 64, None),
        ("bit(64)", "double precision", None, None),
        ("datetime", "timestamp", 6, None),
        ("set('a','b')", "enum", None, None),
    ],
)
def test_a_type_that_does_not_hold_all_is_told(
    source: str, type_: str, length: int | None, scale: int | None
) -> None:
    assert lost(source, TargetColumn("a", type_, length, scale=scale))


@pytest.mark.parametrize(
    ("source", "type_", "length", "scale"),
    [
        ("bigint unsigned", "numeric", 20, 0),
        ("bigint unsigned", "text", None, None),
        ("int", "bigint", None, None),
        ("int", "double precision", None, None),
        ("int", "character varying", 11, None),
        ("year", "smallint", None, None),
        ("year", "year", None, None),
        ("bit(5)", '"bit"', 5, None),
        ("bit(1)", "boolean", None, None),
        ("float", "double precision", None, None),
        ("datetime(6)", "timestamp without time zone", None, None),
        ("timestamp", "timestamp with time zone", 0, None),
        ("time(6)", "interval", None, None),
        ("json", "jsonb", None, None),
        ("json", "text", None, None),
        ("enum('abc','d')", "character varying", 3, None),
        ("set('abc','d')", "character varying", 5, None),
        ("geometry", "bytea", None, None),
        ("varchar(10)", "text", None, None),
        ("uuid", "uuid", None, None),
        ("", "integer", None, None),
        ("decimal(9,0)", "integer", None, None),
        ("decimal(5,0)", "real", None, None),
        ("double", "numeric", None, None),
        ("tinyint unsigned", "bit", 8, None),
        ("bit(64)", "bit varying", None, None),
        ("bit(32)", "double precision", None, None),
        ("timestamp", "timestamp", 6, None),
    ],
)
def test_a_type_that_holds_all_is_not(
    source: str, type_: str, length: int | None, scale: int | None
) -> None:
    assert lost(source, TargetColumn("a", type_, length, scale=scale)) == []


def test_an_interval_without_seconds_is_shown_without_digits() -> None:
    assert lost("time", TargetColumn("a", "interval", -2)) == ["interval keeps less than time"]


def test_a_key_of_more_columns_tells_rows_apart_and_one_of_fewer_does_not() -> None:
    target = TargetColumn("a", "integer")
    assert lost("int", target, wanted_key=key("a"), keys=("a", "b")) == []
    assert lost("int", target, wanted_key=key("a", "b"), keys=("a",)) != []
    assert lost("int", target, wanted_key=key("a"), keys=()) != []
    assert lost("int", target, wanted_key=None, keys=("a",)) != []


@pytest.mark.parametrize(
    ("source", "there", "is_lost"),
    [
        ("utf8mb4_bin", "utf8mb4_general_ci", True),
        ("utf8mb4_general_ci", "utf8mb4_bin", False),
        ("utf8mb4_0900_as_cs", "utf8mb4_0900_as_ci", True),
        ("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci", False),
        ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci", True),
        ("utf8mb4_nopad_bin", "utf8mb4_bin", True),
        ("utf8mb4_general_ci", "latin1_swedish_ci", True),
        ("utf8mb4_general_ci", "utf8mb4_unicode_ci", True),
        ("utf8mb4_unicode_520_ci", "utf8mb4_general_ci", True),
        ("latin1_swedish_ci", "latin1_german2_ci", True),
        ("latin1_swedish_ci", "utf8mb4_swedish_ci", True),
        ("utf8mb3_general_ci", "utf8mb4_general_ci", False),
        ("ascii_general_ci", "utf8mb4_unicode_ci", False),
        ("utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", False),
    ],
)
def test_a_key_whose_collation_folds_more_makes_rows_one(
    source: str, there: str, is_lost: bool
) -> None:
    target = TargetColumn("a", "varchar", 10, declared="varchar(10)", is_folding=True)
    found = lost(
        "varchar(10)",
        target,
        dialect="mysql",
        wanted_key=key("a"),
        keys=("a",),
        collation=source,
        collations={"a": there},
    )
    assert bool(found) is is_lost


OF_MYSQL = {"utf8mb4_0900_ai_ci", "utf8mb4_0900_bin", "utf8mb4_bin", "latin1_bin"}
OF_MARIADB = {
    *("utf8mb4_general_ci", "utf8mb4_nopad_bin", "utf8mb4_bin", "latin1_nopad_bin"),
    "utf8mb4_0900_bin",  # ignores trailing blanks there
}


@pytest.mark.parametrize(
    ("there", "source", "replaced"),
    [
        (OF_MARIADB, "utf8mb4_0900_ai_ci", "utf8mb4_nopad_bin"),
        (OF_MARIADB, "utf8mb4_0900_bin", "utf8mb4_nopad_bin"),
        (OF_MARIADB, "utf8mb4_de_pb_0900_as_cs", "utf8mb4_nopad_bin"),
        (OF_MARIADB, "utf8mb4_uca1400_ai_ci", "utf8mb4_bin"),
        (OF_MARIADB, "latin1_swedish_nopad_ci", "latin1_nopad_bin"),
        (OF_MYSQL, "utf8mb4_unicode_nopad_ci", "utf8mb4_0900_bin"),
        (OF_MYSQL, "utf8mb4_nopad_bin", "utf8mb4_0900_bin"),
        (OF_MYSQL, "utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_0900_ai_ci"),
        (OF_MYSQL, "latin1_german1_ci", "latin1_bin"),
    ],
)
def test_a_key_keeps_rows_apart_by_the_collation_that_a_created_table_gets(
    monkeypatch: pytest.MonkeyPatch, there: set[str], source: str, replaced: str
) -> None:
    def has(_connection: object, name: str, *, may_pad: bool = True) -> bool:
        is_padded = pads(name) or (name == "utf8mb4_0900_bin" and there is OF_MARIADB)
        return name in there and (may_pad or not is_padded)

    monkeypatch.setattr(plan, "_has_collation", has)
    server = Mock()
    server.exec_driver_sql.return_value.one.return_value = ("8.4.0", 1)
    target = plan._target(server, "mysql", ZeroDate.REJECT)
    assert target.collation_of(source)[1] == replaced
    column = TargetColumn("a", "varchar", 10, declared="varchar(10)", is_folding=True)
    found = lost(
        *("varchar(10)", column),
        dialect="mysql",
        wanted_key=key("a"),
        keys=("a",),
        collation=source,
        collations={"a": replaced},
    )
    assert found == []


def test_a_table_that_was_not_looked_at_is_not_called_lossy() -> None:
    wanted = TableDefinition(ID, (ID,), (ColumnDefinition("a", "int", ""),), None)
    found = [plan.TablePlan(wanted, is_there).loses for is_there in (None, True, False)]
    assert found == [False, False, True]


def test_how_much_a_collation_folds() -> None:
    names = ("utf8mb4_0900_bin", "utf8mb4_bin", "utf8mb4_0900_as_cs", "utf8mb4_0900_as_ci")
    assert [*map(folding, names), folding("latin1_swedish_ci")] == [0, 1, 2, 3, 4]


def test_a_missing_column_whose_name_the_target_would_cut_is_not_added_but_renamed() -> None:
    columns = tuple(ColumnDefinition(name, "int", "") for name in ("b", "c" * 64))
    table = TargetTable(ID, {}, (), dialect="postgresql")
    found = differences(TableDefinition(ID, (ID,), columns, None), table, {})
    add = 'ALTER TABLE "shop"."orders" ADD COLUMN "b" integer'
    assert [(each.column, each.what, each.remedy) for each in found] == [
        ("b", "is missing", add),
        (
            "c" * 64,
            "is missing, and its name has more than the 63 bytes that the target allows: rename it "
            "with mapper[i]",
            "",
        ),
    ]


def test_a_missing_column_of_mysql_is_added_with_its_own_character_set() -> None:
    """The table at the target may have another one, which lacks some of its characters."""
    utf8 = ("utf8mb4", "utf8mb4_bin")
    column = ColumnDefinition("b", "varchar(9)", "varchar(9)", collation=utf8)
    wanted = TableDefinition(ID, (ID,), (column,), None, collation=utf8)
    [found] = differences(wanted, TargetTable(ID, {}, (), dialect="mysql"), {})
    assert found.remedy == (
        "ALTER TABLE `shop`.`orders` ADD COLUMN `b` varchar(9) CHARACTER SET utf8mb4 COLLATE "
        "utf8mb4_bin"
    )


def part(
    name: str, type_: str, *unique: str, collation: str = "", drops: bool = False
) -> TableDefinition:
    """The table of a source: a key, a column `price` of this type, and a unique key."""
    columns = (
        ColumnDefinition("id", "int", "int", is_nullable=False),
        ColumnDefinition("price", type_, type_, source_collation=collation),
    )
    index = Index("more", True, "BTREE", tuple(map(IndexPart, unique)))
    indexes = (index,) if unique else ()
    source = (TableId(name, "users"),)
    return TableDefinition(ID, source, columns, key("id"), indexes, drops_lacking=drops)


def compared(
    parts: Sequence[TableDefinition],
    column: TargetColumn | None,
    *uniques: tuple[str, ...],
    collations: dict[str, str] | None = None,
) -> list[tuple[str, bool]]:
    columns = {"id": TargetColumn("id", "int", is_nullable=False, declared="int")}
    if column:
        columns["price"] = column
    table = TargetTable(ID, columns, ("id",), unique_keys=uniques, dialect="mysql")
    wanted = merged(parts, Target("mysql"))
    return [(each.what, each.is_lost) for each in differences(wanted, table, collations or {})]


@pytest.mark.parametrize("turned", [False, True])
def test_the_types_of_all_sources_are_compared_whatever_their_order(turned: bool) -> None:
    parts = [part("s1", "decimal(10,2)"), part("s2", "decimal(10,4)")]
    parts = parts[::-1] if turned else parts
    column = TargetColumn("price", "decimal", 10, scale=2, declared="decimal(10,2)")
    [(what, is_lost)] = compared(parts, column)
    assert is_lost
    assert what.startswith("decimal(10,2) is too narrow for decimal(10,4)")
    assert what.endswith("(rows of s2.users)")
    wide = TargetColumn("price", "decimal", 12, scale=4, declared="decimal(12,4)")
    assert compared(parts, wide) == []


def test_what_is_true_of_all_sources_is_told_once() -> None:
    parts = [part("s1", "bigint"), part("s2", "bigint")]
    column = TargetColumn("price", "int", is_nullable=False, declared="int")
    [narrow, null] = compared(parts, column)
    assert "rows of" not in narrow[0]
    assert null == ("is NOT NULL, and NULL may come", True)


@pytest.mark.parametrize("turned", [False, True])
def test_collations_and_keys_of_all_sources_are_compared(turned: bool) -> None:
    parts = [
        part("s1", "varchar(9)", "price", collation="utf8mb4_general_ci"),
        part("s2", "varchar(9)", collation="utf8mb4_bin"),
    ]
    parts = parts[::-1] if turned else parts
    column = TargetColumn("price", "varchar", 9, declared="varchar(9)")
    collations = {"price": "utf8mb4_general_ci"}
    found = compared(parts, column, ("price",), collations=collations)
    assert sorted(found) == [
        (
            "compares by utf8mb4_general_ci, the source by utf8mb4_bin (rows of s2.users)",
            False,
        ),
        (
            "is in a key, and treats texts as equal that differ at the source (rows of s2.users)",
            True,
        ),
        ("unique key price: rows of several sources may have equal values", True),
    ]


def test_a_missing_column_of_several_types_has_no_remedy() -> None:
    parts = [part("s1", "int"), part("s2", "bigint")]
    assert compared(parts, None) == [
        ("is missing, and is int and bigint for its sources: add it with the wider", True)
    ]
    assert compared([parts[0], part("s2", "int")], None) == [("is missing", True)]


@pytest.mark.parametrize("turned", [False, True])
def test_a_missing_column_is_lost_unless_all_sources_may_lack_it(turned: bool) -> None:
    parts = [part("s1", "int"), part("s2", "int", drops=True)]
    parts = parts[::-1] if turned else parts
    assert compared(parts, None) == [("is missing", True)]
    assert compared([part(name, "int", drops=True) for name in ("s1", "s2")], None) == [
        ("is missing", False)
    ]


def test_a_collation_that_the_plan_itself_gives_the_column_is_no_difference() -> None:
    """The notes of the table tell of it."""
    parts = []
    for name, collation in (("s1", "utf8mb4_general_ci"), ("s2", "utf8mb4_bin")):
        own = part(name, "varchar(9)", collation=collation)
        price = replace(own.columns[1], collation=("utf8mb4", collation))
        parts.append(replace(own, columns=(own.columns[0], price)))
    column = TargetColumn("price", "varchar", 9, declared="varchar(9)")
    for there, count in (("utf8mb4_bin", 0), ("utf8mb4_general_ci", 1), ("utf8mb4_0900_bin", 2)):
        assert len(compared(parts, column, collations={"price": there})) == count
    replaced = replace(price, collation=("utf8mb4", "utf8mb4_bin"), source_collation="utf8mb4_x_ci")
    alone = replace(parts[0], columns=(parts[0].columns[0], replaced))
    assert compared([alone], column, collations={"price": "utf8mb4_bin"}) == []


@pytest.mark.parametrize("turned", [False, True])
def test_a_unique_key_of_each_source_refuses_rows_of_the_others(turned: bool) -> None:
    parts = [part("s1", "int", "price"), part("s2", "int", "price")]
    parts = parts[::-1] if turned else parts
    column = TargetColumn("price", "int", declared="int")
    refused = ("unique key price: rows of several sources may have equal values", True)
    assert compared(parts, column, ("price",)) == [refused]
    assert compared(parts, column, ("price", "id")) == []
    assert compared(parts[:1], column, ("price",)) == []


def test_a_key_on_prefixes_of_each_source_refuses_rows_of_the_others() -> None:
    parts = []
    for name in ("s1", "s2"):
        index = Index("more", True, "BTREE", (IndexPart("price", 5),))
        parts.append(replace(part(name, "text"), indexes=(index,)))
    column = TargetColumn("price", "text", declared="text")
    table = TargetTable(
        *(ID, {"id": TargetColumn("id", "int", declared="int"), "price": column}, ("id",)),
        unique_keys=((),),
        dialect="mysql",
    )
    both, alone = merged(parts, Target("mysql")), parts[0]
    for wanted, is_lost in ((both, True), (alone, False)):
        found = differences(wanted, table, {}, ["price(5)"])
        assert [each.is_lost for each in found] == [True] * is_lost

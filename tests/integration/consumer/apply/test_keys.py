"""Keys are compared as the target's columns hold them, in few rows and in many, with a key and
without."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.converters.debezium_json import DebeziumJson
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, RowChange
from tests.contract.target_server import TargetServer
from tests.integration.consumer.apply.test_applier import CANAL, applying, changes, records, task
from tests.support.servers.target_servers import MysqlServer, PostgresqlServer
from tests.support.topics.records import records_of

__all__ = ["task"]
pytestmark = pytest.mark.integration
MOMENT, FLOAT, ZEROFILL = (
    {"postgresql": "TIMESTAMP", "mysql": "DATETIME"},
    {"postgresql": "REAL", "mysql": "FLOAT"},
    {"postgresql": "INT", "mysql": "INT(5) ZEROFILL"},
)
ALTERED = [  # the target's type, the source's before and after, one key in both
    ("DECIMAL(10,2)", "decimal(10,1)", "1.5", "decimal(10,2)", "1.50"),
    ("{moment}(3)", "datetime", "2024-02-29 10:00:00", "datetime(3)", "2024-02-29 10:00:00.000"),
    ("INT", "int", "7", "int(3) zerofill", "007"),
]
ROUNDED = [  # the target's type, the source's, a key, another one
    ("{moment}(0)", "datetime(3)", "2024-02-29 23:59:59.600", "2023-01-01 00:00:00.100"),
    ("DECIMAL(10,1)", "decimal(10,2)", "1.25", "7.01"),
    ("{float}", "float", "0.1", "1.7"),
]
Cases = tuple[str, str, str, str]


@pytest.fixture(params=["postgresql", "mariadb", "mysql_9"])
def server(request: pytest.FixtureRequest, name: str) -> Iterator[TargetServer]:
    at: Database = request.getfixturevalue(request.param)
    server = PostgresqlServer(at, name) if request.param == "postgresql" else MysqlServer(at, name)
    server.execute("CREATE SCHEMA {schema}")
    yield server
    server.execute("DROP SCHEMA {schema}" + (" CASCADE" if request.param == "postgresql" else ""))


def typed(server: TargetServer, type_: str) -> str:
    kind = "mysql" if server.quoted("a") == "`a`" else "postgresql"
    return type_.format(moment=MOMENT[kind], float=FLOAT[kind], zerofill=ZEROFILL[kind])


def crowd(count: int) -> list[RowChange]:
    """Rows of another table, that make the batch a large one; and the way by columns the one
    that is taken."""
    rows = [(Op.INSERT, None, {"id": str(number)}) for number in range(count)]
    return changes("crowd", "id int", "id", *rows)


@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
@pytest.mark.parametrize(
    ("target", "old_type", "old", "new_type", "new"), ALTERED, ids=["decimal", "moment", "zerofill"]
)
def test_a_key_column_altered_between_insert_and_delete_leaves_no_row(
    server: TargetServer,
    task: LoadTask,
    count: int,
    target: str,
    old_type: str,
    old: str,
    new_type: str,
    new: str,
) -> None:
    server.execute(f"CREATE TABLE {{schema}}.t (k {typed(server, target)} PRIMARY KEY, v INT)")
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    made = records(
        [
            *changes(
                "t",
                f"k {old_type}, v int".replace(" zerofill", "zerofill"),
                "k",
                (Op.INSERT, None, {"k": old, "v": "1"}),
            ),
            *crowd(count),
            *changes(
                "t",
                f"k {new_type}, v int".replace(" zerofill", "zerofill"),
                "k",
                (Op.DELETE, {"k": new, "v": "1"}, None),
            ),
        ]
    )
    with applying(server, task) as applier:
        applier.apply(TopicPartition("shop", 0), made, len(made), 1)
    assert server.rows("SELECT COUNT(*) FROM {schema}.t") == [(0,)]


@pytest.mark.parametrize("count", [1, 300], ids=["small", "large"])
@pytest.mark.parametrize("key", ["PRIMARY KEY", "NULL"], ids=["keyed", "keyless"])
@pytest.mark.parametrize(
    ("target", "type_", "one", "other"), ROUNDED, ids=["moment", "decimal", "float"]
)
def test_a_row_whose_key_the_target_rounds_is_updated_and_deleted(
    server: TargetServer,
    task: LoadTask,
    count: int,
    key: str,
    target: str,
    type_: str,
    one: str,
    other: str,
) -> None:
    server.execute(f"CREATE TABLE {{schema}}.t (k {typed(server, target)} {key}, v INT)")
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    columns = f"k {type_}, v int"
    inserts = changes(
        "t", columns, "k", *[(Op.INSERT, None, {"k": cell, "v": "1"}) for cell in (one, other)]
    )
    update = changes("t", columns, "k", (Op.UPDATE, {"k": one, "v": "1"}, {"k": one, "v": "2"}))
    deletes = changes(
        "t",
        columns,
        "k",
        *[(Op.DELETE, {"k": cell, "v": v}, None) for cell, v in ((one, "2"), (other, "1"))],
    )
    with applying(server, task) as applier:
        for number, (part, left) in enumerate(
            ((inserts, [(1,), (1,)]), (update, [(1,), (2,)]), (deletes, []))
        ):
            made = records([*part, *crowd(count)])
            report = applier.apply(TopicPartition("shop", 0), made, 1000 * (number + 1), 1)
            assert sum(table.missed for table in report.tables.values()) == 0
            assert server.rows("SELECT v FROM {schema}.t ORDER BY v") == left


def folding(server: TargetServer) -> str:
    """A type that takes `a` for `A`."""
    if server.quoted("a") == "`a`":
        return "VARCHAR(20) CHARACTER SET utf8mb4"
    server.execute(
        "CREATE COLLATION {schema}.ci (provider = icu, locale = 'und-u-ks-level2', deterministic "
        "= false)"
    )
    return "VARCHAR(20) COLLATE {schema}.ci"


@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
@pytest.mark.parametrize("parts", [1, 2], ids=["one batch", "two batches"])
def test_of_two_rows_that_the_target_cannot_tell_apart_the_second_is_refused(
    server: TargetServer, task: LoadTask, count: int, parts: int
) -> None:
    server.execute(f"CREATE TABLE {{schema}}.t (k {folding(server)} PRIMARY KEY, v INT)")
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    first, second = changes(
        "t",
        "k varchar(20), v int",
        "k",
        (Op.INSERT, None, {"k": "a", "v": "1"}),
        (Op.INSERT, None, {"k": "A", "v": "2"}),
    )
    both = [first, *crowd(count), second]
    batches = [both] if parts == 1 else [[first, *crowd(count)], [second]]
    dead_letters: list[DeadLetter] = []
    with (
        applying(server, task) as applier,
        pytest.raises(TargetRejected, match="two source rows would become one"),
    ):
        for batch in batches:
            applier.apply(TopicPartition("shop", 0), records(batch), 1000, 1)
    with applying(server, task, dead_letters) as applier:
        for batch in batches:
            applier.apply(TopicPartition("shop", 0), records(batch), 1000, 1)
        assert server.rows("SELECT k, v FROM {schema}.t") == [("a", 1)]
        assert len(dead_letters) == 1
        gone = changes("t", "k varchar(20), v int", "k", (Op.DELETE, {"k": "A", "v": "2"}, None))
        applier.apply(TopicPartition("shop", 0), records([*gone, *crowd(count)]), 2000, 1)
    assert server.rows("SELECT k, v FROM {schema}.t") == [("a", 1)]


@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
def test_a_respelled_key_is_the_same_row(server: TargetServer, task: LoadTask, count: int) -> None:
    server.execute(f"CREATE TABLE {{schema}}.t (k {folding(server)} PRIMARY KEY, v INT)")
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    insert = changes("t", "k varchar(20), v int", "k", (Op.INSERT, None, {"k": "user1", "v": "1"}))
    respell = changes(
        "t",
        "k varchar(20), v int",
        "k",
        (Op.UPDATE, {"k": "user1", "v": "1"}, {"k": "User1", "v": "2"}),
    )
    delete = changes("t", "k varchar(20), v int", "k", (Op.DELETE, {"k": "User1", "v": "2"}, None))
    with applying(server, task) as applier:
        for batch in (
            [*insert, *crowd(count)],
            [*respell, *crowd(count)],
            [*respell, *crowd(count)],
        ):
            applier.apply(TopicPartition("shop", 0), records(batch), 1000, 1)
        assert server.rows("SELECT k, v FROM {schema}.t") == [("User1", 2)]
        applier.apply(TopicPartition("shop", 0), records([*delete, *crowd(count)]), 2000, 1)
        applier.apply(
            TopicPartition("shop", 0), records([*insert, *respell, *delete, *crowd(count)]), 3000, 1
        )
    assert server.rows("SELECT COUNT(*) FROM {schema}.t") == [(0,)]


@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
def test_a_number_with_zeros_in_front_is_part_of_a_key_with_a_text(
    server: TargetServer, task: LoadTask, count: int
) -> None:
    number = typed(server, "{zerofill}")
    server.execute(
        f"CREATE TABLE {{schema}}.t (k {folding(server)}, n {number}, v INT, PRIMARY KEY (k, n))"
    )
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    columns = "k varchar(20), n int(5), v int"
    one, two = ({"k": "abc", "n": "42", "v": v} for v in ("1", "2"))
    insert = changes("t", columns, "k", (Op.INSERT, None, one))
    update = changes("t", columns, "k", (Op.UPDATE, one, two))
    delete = changes("t", columns, "k", (Op.DELETE, two, None))
    with applying(server, task) as applier:
        steps = ((insert, "1"), (insert, "1"), (update, "2"), (delete, None))
        for at, (step, left) in enumerate(steps, 1):
            made = records([*step, *crowd(count)])
            applier.apply(TopicPartition("shop", 0), made, 1000 * at, 1)
            assert server.rows("SELECT CAST(MAX(v) AS CHAR(1)) FROM {schema}.t") == [(left,)]


TAKEN_FOR_ONE = [
    ("{moment}(0)", "datetime(3)", "2024-02-29 23:59:59.600", "2024-02-29 23:59:59.700"),
    ("DECIMAL(10,1)", "decimal(10,2)", "1.25", "1.30"),
    ("BIGINT", "decimal(10,2)", "1.20", "1.40"),
    ("DOUBLE PRECISION", "decimal(30,2)", "9007199254740992.00", "9007199254740993.00"),
]


@pytest.mark.parametrize("is_letter", [False, True], ids=["stop", "dead letter"])
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
@pytest.mark.parametrize(
    ("target", "source", "first", "second"),
    TAKEN_FOR_ONE,
    ids=["moment", "decimal", "whole", "double"],
)
def test_of_two_rows_whose_keys_the_target_rounds_to_one_the_second_is_refused(
    server: TargetServer,
    task: LoadTask,
    count: int,
    batches: int,
    is_letter: bool,
    target: str,
    source: str,
    first: str,
    second: str,
) -> None:
    server.execute(f"CREATE TABLE {{schema}}.t (k {typed(server, target)} PRIMARY KEY, v INT)")
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    one, two = changes(
        "t",
        f"k {source}, v int",
        "k",
        *((Op.INSERT, None, {"k": key, "v": v}) for key, v in ((first, "1"), (second, "2"))),
    )
    parts = [[one, two, *crowd(count)]] if batches == 1 else [[one], [two, *crowd(count)]]
    dead_letters: list[DeadLetter] = []
    refused, end = False, 0
    with applying(server, task, dead_letters if is_letter else None) as applier:
        for part in parts:
            try:
                applier.apply(
                    TopicPartition("shop", 0),
                    records_of([(end + at, CANAL.to_bytes(each)) for at, each in enumerate(part)]),
                    end + len(part),
                    1,
                )
            except TargetRejected as error:
                refused = True
                assert "two source rows would become one" in str(error)
            end += len(part)
    assert refused is not is_letter
    if is_letter:
        assert [dead_letter.offset for dead_letter in dead_letters] == [1]
    if is_letter or batches == 2:
        assert server.rows("SELECT v FROM {schema}.t") == [(1,)]


BOUNDS = [
    ("CHAR(36)", {"type": "string"}, "6ccd780c-baba-1026-9564-5b8c656024db"),
    ("BIGINT", {"type": "double"}, 7.0),
    ("{moment}(0)", {"type": "int64", "name": "io.debezium.time.Timestamp"}, 1709200800000),
]


@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
@pytest.mark.parametrize(("target", "field", "key"), BOUNDS, ids=["text", "number", "moment"])
def test_an_insert_that_comes_twice_is_taken_where_its_schema_has_only_a_bound_of_its_type(
    server: TargetServer,
    task: LoadTask,
    count: int,
    target: str,
    field: dict[str, str],
    key: str | float,
) -> None:
    """As a connector of Debezium sends the newest rows again when it starts."""
    server.execute(f"CREATE TABLE {{schema}}.t (k {typed(server, target)} PRIMARY KEY, v INT)")
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")

    def insert(table: str, row: dict[str, object], *fields: dict[str, str]) -> bytes:
        image = {"field": "after", "fields": fields}
        source = {"db": "shop", "table": table}
        payload = {"op": "c", "before": None, "after": row, "source": source}
        return orjson.dumps({"schema": {"fields": [image]}, "payload": payload})

    int_ = {"type": "int32"}
    row = insert("t", {"k": key, "v": 1}, {"field": "k", **field}, {"field": "v", **int_})
    others = [insert("crowd", {"id": at}, {"field": "id", **int_}) for at in range(count)]
    loader = make_loader("JdbcBatch", server.target())
    try:
        applier = PartitionApplier(task, DebeziumJson(), loader)
        applier.applied_offsets()
        for at in range(2):
            made = records_of(list(enumerate([row, *others], at * (count + 1))))
            applier.apply(TopicPartition("shop", 0), made, (at + 1) * (count + 1), 1)
    finally:
        loader.close()
    assert server.rows("SELECT v FROM {schema}.t") == [(1,)]


def test_a_row_that_a_batch_inserts_and_deletes_takes_none_with_it_that_is_one_with_it_at_the_target(
    server: TargetServer, task: LoadTask
) -> None:
    server.execute("CREATE TABLE {schema}.t (k CHAR(9) PRIMARY KEY, v INT)")
    rows = [{"k": key, "v": v} for key, v in (("a", "1"), ("a ", "2"))]
    there = changes("t", "k varchar(20), v int", "k", (Op.INSERT, None, rows[0]))
    passing = changes(
        "t", "k varchar(20), v int", "k", (Op.INSERT, None, rows[1]), (Op.DELETE, rows[1], None)
    )
    with applying(server, task) as applier:
        applier.apply(TopicPartition("shop", 0), records(there), 1, 1)
        with pytest.raises(TargetRejected, match="two source rows would become one"):
            applier.apply(
                TopicPartition("shop", 0),
                records_of([(at, CANAL.to_bytes(each)) for at, each in enumerate(passing, 1)]),
                3,
                1,
            )
    assert server.rows("SELECT v FROM {schema}.t") == [(1,)]


ALIKE = [  # MariaDB's column, PostgreSQL's ICU collation or type, two texts that are one there
    ("VARCHAR(20) COLLATE utf8mb4_unicode_ci", "und-u-ks-level1", "あ", "ア"),
    ("VARCHAR(20) COLLATE utf8mb4_general_ci", "", "😀", "😁"),
    ("VARCHAR(20) COLLATE utf8mb4_german2_ci", "de-u-co-phonebk-ks-level1", "ä", "ae"),
    ("VARCHAR(20) COLLATE utf8mb4_bin", "und-u-ka-shifted-ks-level1", "a", "a "),
    ("CHAR(20) COLLATE utf8mb4_bin", "CHAR(20)", "a", "a "),
    ("CHAR(20) COLLATE utf8mb4_bin", "CHAR(20)", "a ", "a"),
    ("CHAR(20)", "BPCHAR", "a", "a "),
    ("DATE", "DATE", "2024-02-29 10:00:00", "2024-02-29 11:00:00"),
    ("FLOAT", "REAL", "0.1", "0.100000000001"),
]
OTHER = {"FLOAT": "7.5"}


@pytest.mark.parametrize("count", [0, 300], ids=["small", "large"])
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize(("own", "other", "first", "second"), ALIKE)
def test_keys_that_only_the_server_can_tell_are_one_are_refused(
    server: TargetServer,
    task: LoadTask,
    batches: int,
    count: int,
    own: str,
    other: str,
    first: str,
    second: str,
) -> None:
    type_ = own if server.quoted("a") == "`a`" else other
    if not type_:
        pytest.skip("PostgreSQL tells these apart")
    if "-u-" in type_:
        server.execute(
            f"CREATE COLLATION {{schema}}.own (provider = icu, locale = '{type_}', deterministic "
            f"= false)"
        )
        type_ = "VARCHAR(20) COLLATE {schema}.own"
    server.execute(f"CREATE TABLE {{schema}}.t (k {type_} PRIMARY KEY, v INT)")
    server.execute("CREATE TABLE {schema}.crowd (id INT PRIMARY KEY)")
    source = {"DATE": "datetime", "FLOAT": "double", "REAL": "double"}.get(type_, "varchar(20)")
    rows = [
        (Op.INSERT, None, {"k": key, "v": v})
        for key, v in ((first, "1"), (second, "2"), (OTHER.get(own, "1999-12-31"), "3"))
    ]
    one, two, third = changes("t", f"k {source}, v int", "k", *rows)
    gone = changes(
        "t",
        f"k {source}, v int",
        "k",
        (Op.DELETE, {"k": OTHER.get(own, "1999-12-31"), "v": "3"}, None),
    )
    parts = [[one, two, third, *crowd(count)]]
    if batches == 2:
        parts = [[one, *crowd(count)], [two, third]]
    dead_letters: list[DeadLetter] = []
    with applying(server, task, dead_letters) as applier:
        end = 0
        for part in (*parts, gone):
            made = records_of([(end + at, CANAL.to_bytes(each)) for at, each in enumerate(part)])
            end += len(part)
            applier.apply(TopicPartition("shop", 0), made, end, 1)
    assert len(dead_letters) == 1
    assert server.rows("SELECT v FROM {schema}.t") == [(1,)]

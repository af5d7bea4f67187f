"""Generated DDL on the real server: what its text says is what the server made of it, or it is
not understood."""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_alteration import apply
from cdcbus.producer.ddl.table_changes import Altered, Change, Created, Dropped
from cdcbus.producer.ddl.table_schema import TableSchema, UniqueKey
from cdcbus.producer.decoding.charsets import encoded
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.source.binlog_source import BinlogSource
from tests.integration.producer.reading import connect, fetch_task, position
from tests.support.changes.ddl_cases import essence

pytestmark = [pytest.mark.integration, pytest.mark.source]

STATEMENTS = 400  # that the server takes
UNDERSTOOD = 0.99
CLIENTS = ("utf8mb4", "utf8mb4", "latin1", "gbk", "sjis")
NAMES = {
    "latin1": ("a", "b", "C", "größe", "x$1", "2x"),
    "gbk": ("a", "b", "表", "列"),
    "sjis": ("a", "b", "表", "ソ"),
    "utf8mb4": ("ä", "表", "a", "b", "é é"),
}
MODES = (
    "",
    "ANSI_QUOTES",
    "NO_BACKSLASH_ESCAPES",
    "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,REAL_AS_FLOAT",
)
MODES_MARIADB = (*MODES, "ORACLE", "MAXDB")
NUMBERS = (
    "INT|INTEGER|INT(11)|INT1|INT2|INT3|INT4|INT8|MIDDLEINT|BIGINT|TINYINT(1)|SMALLINT UNSIGNED"
    "|MEDIUMINT UNSIGNED ZEROFILL|BIGINT(20) UNSIGNED"
    "|BOOL|BOOLEAN|DECIMAL|DEC(5)|NUMERIC(9, 2)|FIXED(6,1) "
    "UNSIGNED|FLOAT|FLOAT(30)|FLOAT(7,3)|FLOAT4|FLOAT8|DOUBLE PRECISION|DOUBLE(9,3)"
    "|REAL|BIT|BIT(7)|YEAR|DATE|TIME(3)|DATETIME(6)|DATETIME|TIMESTAMP NULL|TIMESTAMP(2) NULL|INT "
    "SIGNED"
)
BYTES = (
    "BINARY(3)|BINARY|VARBINARY(20)|BLOB|TINYBLOB|MEDIUMBLOB|LONGBLOB|BLOB(70)|BLOB(300)|LONG "
    "VARBINARY|GEOMETRY|POINT|GEOMETRYCOLLECTION"
)
TEXTS = (
    "CHAR|CHAR(9)|CHARACTER(3)|VARCHAR(20)|CHARACTER VARYING(7)|CHAR "
    "VARYING(8)|TINYTEXT|TEXT|MEDIUMTEXT|LONGTEXT"
    "|TEXT(20)|TEXT(100)|TEXT(20000)"
    "|LONG|LONG VARCHAR|ENUM({0})|SET({0})|ENUM({0},'x')"
)
NATIONALS = (
    "NCHAR(3)|NATIONAL CHAR(4)|NVARCHAR(5)|NATIONAL VARCHAR(6)|NCHAR VARYING(7)|NATIONAL "
    "CHAR VARYING(8)|NCHAR VARCHAR(9)"
)
CHARSETS = (
    "|| CHARACTER SET latin1| CHARSET utf8mb4| CHARACTER SET 'latin1'| CHARACTER SET utf8mb3 "
    "COLLATE utf8mb3_bin| COLLATE utf8mb4_bin"
    "| COLLATE latin1_bin| CHAR SET ascii| UNICODE| ASCII| BYTE| BINARY| CHARACTER SET binary| "
    "CHARACTER SET gbk BINARY"
)
ATTRIBUTES = (
    "|||| NOT NULL| NULL| DEFAULT NULL| COMMENT {0}| INVISIBLE| COMMENT {0} NOT NULL| CHECK (1 = "
    "1)| CONSTRAINT c{n} CHECK (1 < {n})"
    " | /* a */| -- b\n| #c\n| /*!50000 NOT NULL */| /*!99999 NOT NULL */| /*M! NOT NULL */| "
    "/*M!100100 NOT NULL */| /*!80023 NOT NULL */"
    "| /*M!990000 , NOT /* */ */| /*!50701 COMMENT 'm' */"
)
SERVER_ATTRIBUTES = {
    True: "| COMPRESSED| WITHOUT SYSTEM VERSIONING| COMPRESSED=zlib",
    False: "| COLUMN_FORMAT FIXED| NOT SECONDARY",
}
OPTIONS = (
    "|| ENGINE=InnoDB| COMMENT={0}| DEFAULT CHARSET=latin1| CHARACTER SET = utf8mb4 COLLATE = "
    "utf8mb4_bin"
    "| COLLATE latin1_bin| ROW_FORMAT DYNAMIC, COMMENT {0}"
)


@dataclass
class Grammar:
    """Statements by chance, for the table `t` as it is."""

    rng: random.Random
    is_mariadb: bool
    client: str = "utf8mb4"
    mode: str = ""
    table: TableSchema | None = None
    count: int = 0
    is_plain: bool = False  # labels in ASCII
    labels: tuple[str, ...] = field(default=("a", "b'c", "d,e", 'f"g', "ä", "h\\n", "表 "))

    def pick(self, choices: str) -> str:
        self.count += 1
        return (
            self.rng.choice(choices.split("|"))
            .replace("{0}", self.text())
            .replace("{n}", str(self.count))
        )

    def text(self) -> str:
        """A string."""
        possible = []
        for label in self.labels:
            is_allowed = label.isascii() or not self.is_plain
            if is_allowed and encoded(self.client, label) is not None:
                possible.append(label)
        label = self.rng.choice(possible)
        if "NO_BACKSLASH" not in self.mode:
            label = label.replace("\\", "\\\\")
        if "ANSI" in self.mode or self.mode == "ORACLE" or self.rng.random() < 0.7:
            return "'" + label.replace("'", "''") + "'"
        return '"' + label.replace('"', '""') + '"'

    def name(self, name: str) -> str:
        if re.fullmatch(r"\w*[a-z]\w*", name, re.ASCII) and self.rng.random() < 0.5:
            return name
        if ("ANSI" in self.mode or self.mode == "ORACLE") and self.rng.random() < 0.5:
            return f'"{name}"'
        return f"`{name}`"

    def new(self) -> str:
        """A column's name, that no other has."""
        name = self.rng.choice(NAMES[self.client])
        if self.rng.random() < 0.8:
            name += str(self.count)
        return self.name(name)

    def old(self) -> str:
        """A column that is there; mostly one that is in no key."""
        names = []
        if self.table:
            keyed = set[str]()
            if self.rng.random() < 0.95:
                for key in self.table.uniques:
                    keyed.update(key.columns)
            for column in self.table.columns:
                if column.name not in keyed and encoded(self.client, column.name) is not None:
                    names.append(column.name)
        return self.rng.choice(names or ["id"])

    def short(self) -> str:
        """A column that a key is made of mostly."""
        long = ("text", "blob", "geo", "poi", "vec", "json")
        columns = self.table.columns if self.table else ()
        names = []
        for column in columns:
            is_long = any(word in column.type for word in long)
            if not is_long and encoded(self.client, column.name) is not None:
                names.append(column.name)
        if self.rng.random() < 0.995:
            return self.name(self.rng.choice(names or ["id"]))
        return self.name(self.old())

    def type(self) -> str:
        family = self.rng.random()
        if self.mode == "ORACLE" and family < 0.2:
            return self.pick(
                "VARCHAR2(9)|NUMBER|NUMBER(5)|NUMBER(7,2)|RAW(5)|CLOB|BLOB|DATE|MARIADB_SCHEMA.DATE"
            )
        if family < 0.4:
            return self.pick(NUMBERS)
        if family < 0.5:
            own = "|VECTOR(3)|GEOMCOLLECTION|JSON"
            if self.is_mariadb:
                own = "|UUID|INET6|INET4|VECTOR(3)"
            return self.pick(BYTES + own)
        if family < 0.53:
            return self.pick(NATIONALS)
        if family < 0.55:
            return "JSON"
        charset = self.pick(CHARSETS)
        self.is_plain = bool(charset) and "utf8" not in charset and self.rng.random() < 0.995
        found = self.pick(TEXTS)
        self.is_plain = False
        return found + charset

    def column(self, name: str) -> str:
        more = self.pick(ATTRIBUTES)
        if self.rng.random() < 0.05:
            more += self.pick(SERVER_ATTRIBUTES[self.is_mariadb])
        if self.rng.random() < 0.04:
            type_ = self.type() if self.rng.random() < 0.005 else self.pick(NUMBERS)
            return f"{name} {type_}{more} UNIQUE{self.pick('| KEY')}"
        if self.rng.random() < 0.03:
            default = self.rng.choice(["1", "-1.5", "(1 + 1)", "NULL"])
            return (
                f"{name} INT DEFAULT {default} REFERENCES x (y) ON DELETE SET "
                f"NULL{self.pick(ATTRIBUTES)}"
            )
        if self.rng.random() < 0.03:
            return f"{name} VARCHAR(90) {self.pick('|GENERATED ALWAYS ')}AS (concat('a(', \"id\", ')')) {self.pick('VIRTUAL|STORED')}".replace(
                '"id"', "id"
            )
        return f"{name} {self.type()}{more}"

    def place(self) -> str:
        return self.rng.choice(["", "", "", " FIRST", f" AFTER {self.name(self.old())}"])

    def action(self) -> str:
        self.count += 1
        t = self.rng.choice(["", "", "", "t."])
        old, new = self.name(self.old()), self.new()
        unique = (
            "UNIQUE|UNIQUE KEY|CONSTRAINT u{n} UNIQUE|UNIQUE u{n}|UNIQUE INDEX u{n} USING BTREE"
        )
        kinds: list[Callable[[], str]] = [
            *[lambda: f"ADD {self.pick('|COLUMN ')}{self.column(new)}{self.place()}"] * 4,
            lambda: (
                f"ADD ({self.column(new)}, {self.column(self.new())}, KEY k{self.count} ({new}))"
            ),
            *[lambda: f"MODIFY {self.pick('|COLUMN ')}{t}{self.column(old)}{self.place()}"] * 2,
            *[lambda: f"CHANGE {t}{old} {self.column(new)}{self.place()}"] * 2,
            lambda: (
                f"DROP {self.pick('|COLUMN ')}{old}{self.pick('|| RESTRICT| CASCADE') if self.is_mariadb else ''}"
            ),
            lambda: f"RENAME COLUMN {old} TO {new}",
            lambda: f"ADD {self.pick(unique)} ({self.short()}{self.pick('|||| DESC')})",
            lambda: self.prefix_index(old),
            lambda: f"ADD {self.pick('INDEX|KEY k{n}|FULLTEXT KEY')} ({old})",
            lambda: self.pick(
                "ALTER id SET DEFAULT 3|COMMENT {0}|ENGINE=InnoDB|FORCE|ALGORITHM=COPY|ADD CHECK "
                "(1 < 2)"
                "|DROP PRIMARY KEY|ADD PRIMARY KEY (id)"
            ),
            lambda: self.pick(
                "CONVERT TO CHARACTER SET utf8mb4|CONVERT TO CHARSET latin1 COLLATE "
                "latin1_bin|DEFAULT CHARSET utf8mb4|CHARACTER SET latin1"
                "|COLLATE utf8mb4_bin|DEFAULT COLLATE latin1_bin|CHARSET = 'utf8mb4'|ROW_FORMAT = "
                "DYNAMIC"
            ),
            lambda: self.drop_index(),
        ]
        if self.is_mariadb:
            kinds += [
                lambda: f"ADD COLUMN IF NOT EXISTS {self.column(self.rng.choice([old, new]))}",
                lambda: f"DROP COLUMN IF EXISTS {self.rng.choice([old, new])}",
                lambda: f"MODIFY COLUMN IF EXISTS {self.column(self.rng.choice([old, new]))}",
                lambda: f"CHANGE IF EXISTS {self.rng.choice([old, new])} {self.column(self.new())}",
            ]
        return self.rng.choice(kinds)()

    def prefix_index(self, column: str) -> str:
        """Rarely, as most columns have no prefix."""
        if self.rng.random() >= 0.05:
            return "FORCE"
        return f"ADD UNIQUE p{self.count} ({column}({self.rng.choice([3, 9])}))"

    def drop_index(self) -> str:
        names = []
        if self.table:
            names = [unique.name for unique in self.table.uniques if unique.name != "PRIMARY"]
        if not names:
            return "FORCE"
        return f"DROP {self.pick('INDEX|KEY')} {self.name(self.rng.choice(names))}"

    def create(self) -> str:
        columns = [self.column(self.new()) for _ in range(self.rng.randrange(1, 5))]
        columns.insert(
            self.rng.randrange(len(columns) + 1),
            self.pick(
                "id INT PRIMARY KEY|id SERIAL|id INT NOT NULL AUTO_INCREMENT KEY|id BIGINT UNIQUE"
            ),
        )
        if self.rng.random() < 0.3:
            columns.append(
                self.pick(
                    "KEY k (id)|UNIQUE KEY (id)|INDEX id (id)|CHECK (1 < 2)|UNIQUE u (id DESC) "
                    "COMMENT {0}"
                )
            )
        options = self.pick(OPTIONS)
        if self.is_mariadb:
            options += self.pick("|||||||| WITH SYSTEM VERSIONING| COLLATE uca1400_ai_ci")
        return f"CREATE TABLE {self.pick('|||IF NOT EXISTS ')}t ({', '.join(columns)}){options}"

    def statement(self) -> str:
        if self.table is None:
            return self.create()
        kind = self.rng.random()
        if kind < 0.04:
            return "CREATE TABLE IF NOT EXISTS t (id INT)"
        if kind < 0.06:
            return f"CREATE UNIQUE INDEX u{self.count} ON t ({self.short()})"
        if kind < 0.2 or len(self.table.columns) > 14 or self.table.columns[-1].name == "row_end":
            return "DROP TABLE t"
        choices = "TABLE"
        if self.is_mariadb:
            choices = "TABLE|TABLE|TABLE|ONLINE TABLE|IGNORE TABLE|TABLE IF EXISTS"
        words = self.pick(choices)
        actions = [self.action() for _ in range(self.rng.choice([1, 1, 2, 3]))]
        if self.rng.random() < 0.9:  # what happens to a column twice over is for the server to say
            actions = [action for action in actions if "EXISTS" not in action] or actions[:1]
        return f"ALTER {words} {self.rng.choice(['t', '`t`', '.`t`'])} {', '.join(actions)}"


@dataclass
class Ran:
    """A statement that the server took: its end, and the table before and after it."""

    end: BinlogCoordinates
    before: TableSchema | None
    after: TableSchema | None


def run(source: Database, name: str, seed: int, *, is_mariadb: bool) -> Iterator[Ran]:
    rng = random.Random(seed)
    grammar = Grammar(rng, is_mariadb)
    table = TableId(name, "t")
    with connect(source) as connection, connect(source) as asking, connection.cursor() as cursor:
        reader = SchemaReader(asking)
        cursor.execute(f"USE {name}")
        before: TableSchema | None = None
        for _ in range(20 * STATEMENTS):
            if before is None:
                grammar.mode = rng.choice(MODES_MARIADB if is_mariadb else MODES)
                cursor.execute("SET sql_mode = %s", (grammar.mode,))
            grammar.client, grammar.table = rng.choice(CLIENTS), before
            text = grammar.statement()
            sql = encoded(grammar.client, text)
            if sql is None:
                continue
            cursor.execute(f"SET NAMES {grammar.client}")
            try:
                connection.query(sql)
            except pymysql.MySQLError:
                continue
            after, end = reader.read(table)
            yield Ran(end, before, after)
            before = after


def told(
    table: TableId, before: TableSchema | None, found: list[Change], charset: str
) -> TableSchema | None:
    """The table after a statement, by its text; None where that is not understood."""
    state = before
    for change in found:
        if isinstance(change, Dropped):
            return TableSchema((), (), "")
        if isinstance(change, Created) and change.if_missing and before is not None:
            continue
        if (
            not isinstance(change, Created | Altered)
            or change.actions is None
            or change.table != table
        ):
            return None
        state = apply(
            TableSchema((), (), charset) if isinstance(change, Created) or state is None else state,
            change.actions,
        )
        if state is None:
            return None
    return state


@pytest.mark.parametrize(
    "seed", [int(seed) for seed in os.environ.get("CDCBUS_TEST_SEEDS", "1").split(",")]
)
def test_a_text_says_what_the_server_makes_of_it(
    source: Database,
    source_cursor: Cursor,
    name: str,
    seed: int,
    capsys: pytest.CaptureFixture[str],
    *,
    is_mariadb: bool,
) -> None:
    start = position(source_cursor)
    table = TableId(name, "t")
    ran: list[Ran] = []
    for one in run(source, name, seed, is_mariadb=is_mariadb):
        ran.append(one)
        if len(ran) == STATEMENTS:
            break
    with BinlogSource(fetch_task(source, name)) as binlog:
        statements: list[Statement] = binlog._history()._scan.between(
            BinlogCoordinates(start.file, start.pos), ran[-1].end
        )
    wrong, strange = [], []
    by_end = {statement.end: statement for statement in statements}
    for one in ran:
        if one.end not in by_end:  # what does nothing is not always logged
            assert one.before == one.after
            continue
        statement = by_end.pop(one.end)
        found = changes(statement.sql, statement.schema, statement.session)
        made = told(table, one.before, found, "utf8mb4")
        wanted = one.after or TableSchema((), (), "")
        if made is None:
            strange.append(statement.sql.decode("utf-8", "replace"))
        elif essence(_plain(made)) != essence(_plain(wanted)) or not _alike(
            _plain(made), _plain(wanted)
        ):
            wrong.append(
                (
                    statement.sql.decode("utf-8", "replace"),
                    one.before and one.before.to_fields(),
                    made.to_fields(),
                    wanted.to_fields(),
                )
            )
    share = 1 - len(strange) / len(ran)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(ran)} statements, {share:.2%} understood\n")
    assert not wrong, "\n".join(map(str, wrong[:5]))
    assert share >= UNDERSTOOD, "\n".join(strange)


def _plain(table: TableSchema) -> TableSchema:
    """MySQL shows no character set where the values are bytes, MariaDB does. The order of unique
    keys counts where it says which is the table's: not behind a primary key, nor of those that
    are none for it."""
    nullable = {column.name for column in table.columns if column.is_nullable}
    has_primary = any(unique.name == "PRIMARY" for unique in table.uniques)

    def counts(unique: UniqueKey) -> bool:
        return unique.name == "PRIMARY" or (
            not has_primary and unique.is_whole and not nullable & {*unique.columns}
        )

    others = sorted(
        (replace(unique, name="") for unique in table.uniques if not counts(unique)),
        key=lambda one: (one.columns, one.is_whole),
    )
    columns = tuple(
        replace(column, charset="") if column.charset == "binary" else column
        for column in table.columns
    )
    return replace(table, columns=columns, uniques=(*filter(counts, table.uniques), *others))


def _alike(made: TableSchema, found: TableSchema) -> bool:
    """Whether the keys are the same, up to names that the server chose."""

    def keys(table: TableSchema) -> list[tuple[str, tuple[str, ...], bool]]:
        found = []
        for key, known in zip(table.uniques, made.uniques, strict=False):
            name = key.name if known.name else ""
            found.append((name, key.columns, key.is_whole))
        return found

    return len(made.uniques) == len(found.uniques) and keys(made) == keys(found)

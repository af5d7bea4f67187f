"""Random tables with keys of any kind, and writers that do anything to their rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from threading import Event, Thread
from typing import Any, Final

import pymysql
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.mysql.connection import MysqlConnection

Value = Callable[[random.Random], Any]
LETTERS: Final = "aAbBzZäÄéß _-'\\%1"
MORE_LETTERS: Final = f"{LETTERS}漢字😀ǆ"
COLLATIONS: Final = (
    "utf8mb4_general_ci",
    "utf8mb4_bin",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb4_nopad_bin",
    "latin1_swedish_ci",
    "latin1_german2_ci",
)


def text(letters: str, most: int) -> Value:
    return lambda choose: "".join(choose.choices(letters, k=choose.randrange(most + 1)))


def time_of(choose: random.Random, digits: int = 0) -> str:
    fraction = f".{choose.randrange(10**digits):0{digits}}" if digits else ""
    hour = choose.randrange(24)
    minute = choose.randrange(60)
    second = choose.randrange(60)
    return f"{hour:02}:{minute:02}:{second:02}{fraction}"


def date_of(choose: random.Random) -> str:
    return f"{choose.randrange(1971, 2037)}-{choose.randrange(1, 13):02}-{choose.randrange(1, 29)}"


def gaps(choose: random.Random) -> int:
    """Most in one narrow range, the others far apart."""
    if choose.random() < 0.9:
        return choose.randrange(5000)
    return choose.randrange(10**12, 2**63)


def text_key(collation: str) -> tuple[str, Value]:
    """A column type of this collation, and its values."""
    charset, _, _ = collation.partition("_")
    letters = LETTERS if charset == "latin1" else MORE_LETTERS
    return f"VARCHAR(12) CHARACTER SET {charset} COLLATE {collation}", text(letters, 4)


KEYS: Final[dict[str, Value]] = {
    "INT": lambda choose: choose.randrange(-2000, 2000),
    "BIGINT UNSIGNED": gaps,
    "DECIMAL(22,5)": lambda choose: Decimal(choose.randrange(-(10**6), 10**6)) / 1000,
    "VARBINARY(6)": lambda choose: choose.randbytes(choose.randrange(1, 4)),
    "BINARY(4)": lambda choose: choose.randbytes(2),
    "DATE": date_of,
    "DATETIME(3)": lambda choose: f"{date_of(choose)} {time_of(choose, 3)}",
    **dict(map(text_key, COLLATIONS)),
}
CELLS: Final[dict[str, Value]] = {
    "INT": lambda choose: choose.randrange(-(2**31), 2**31),
    "BIGINT UNSIGNED": lambda choose: choose.randrange(2**64),
    "TINYINT(1)": lambda choose: choose.randrange(2),
    "DECIMAL(20,4)": lambda choose: Decimal(choose.randrange(-(10**9), 10**9)) / 10_000,
    "FLOAT": lambda choose: choose.uniform(-1e6, 1e6),
    "DOUBLE": lambda choose: choose.uniform(-1e9, 1e9),
    "VARCHAR(40)": text(MORE_LETTERS, 30),
    "VARCHAR(40) CHARACTER SET latin1": text(LETTERS, 30),
    "CHAR(8)": text(LETTERS, 8),
    "TEXT": text(MORE_LETTERS, 90),
    "BLOB": lambda choose: choose.randbytes(choose.randrange(40)),
    "JSON": lambda choose: f'{{"a": {choose.randrange(9)}, "b": [1, "x{choose.randrange(9)}"]}}',
    "DATE": date_of,
    "TIME(2)": lambda choose: time_of(choose, 2),
    "DATETIME(6)": lambda choose: f"{date_of(choose)} {time_of(choose, 6)}",
    "TIMESTAMP(3) NULL": lambda choose: f"{date_of(choose)} {time_of(choose, 3)}",
    "YEAR": lambda choose: choose.randrange(1901, 2156),
    "ENUM('a','b','it''s')": lambda choose: choose.choice(("a", "b", "it's")),
    "SET('x','y','z')": lambda choose: choose.choice(("", "x", "y,z", "x,y,z")),
    "BIT(9)": lambda choose: choose.randrange(2**9),
}


@dataclass(frozen=True, slots=True)
class RandomTable:
    """`key` and `cells`: the types of the columns k0, k1, ... and c0, c1, ..."""

    name: str
    key: tuple[str, ...]
    cells: tuple[str, ...]
    is_primary: bool

    @classmethod
    def make(cls, name: str, choose: random.Random) -> RandomTable:
        return cls(
            name,
            tuple(choose.sample(list(KEYS), choose.choice((1, 1, 1, 2, 3)))),
            tuple(choose.sample(list(CELLS), choose.randrange(1, 7))),
            choose.random() < 0.8,
        )

    @property
    def key_names(self) -> list[str]:
        return [f"k{number}" for number in range(len(self.key))]

    @property
    def ddl(self) -> str:
        keys = [f"k{number} {type_} NOT NULL" for number, type_ in enumerate(self.key)]
        cells = [f"c{number} {type_}" for number, type_ in enumerate(self.cells)]
        kind = "PRIMARY KEY" if self.is_primary else "UNIQUE KEY only_one"
        columns = ", ".join([*keys, *cells, f"{kind} ({', '.join(self.key_names)})"])
        return f"CREATE TABLE {self.name} ({columns}) CHARACTER SET utf8mb4"

    def key_of(self, choose: random.Random) -> list[Any]:
        return [KEYS[each](choose) for each in self.key]

    def cells_of(self, choose: random.Random) -> list[Any]:
        return [None if choose.random() < 0.1 else CELLS[each](choose) for each in self.cells]

    def row(self, choose: random.Random) -> list[Any]:
        return [*self.key_of(choose), *self.cells_of(choose)]

    def insert(self, cursor: Cursor, rows: list[list[Any]], verb: str = "INSERT IGNORE") -> None:
        marks = ", ".join(["%s"] * len(rows[0]))
        cursor.executemany(f"{verb} INTO {self.name} VALUES ({marks})", rows)

    def change(self, cursor: Cursor, choose: random.Random) -> None:
        """Any one statement; some find no row, or meet another's key."""
        some = f"ORDER BY {', '.join(self.key_names)} LIMIT {choose.choice((1, 1, 5))}"
        near = f"{self.key_names[0]} >= %s {some}"
        low = self.key_of(choose)[0]
        match choose.randrange(6):
            case 0:
                self.insert(cursor, [self.row(choose)])
            case 1:
                self.insert(cursor, [self.row(choose)], "REPLACE")
            case 2:
                cursor.execute(f"DELETE FROM {self.name} WHERE {near}", (low,))
            case 3:
                one = f"{self.key_names[0]} >= %s ORDER BY {', '.join(self.key_names)} LIMIT 1"
                column = choose.randrange(len(self.key))
                value = KEYS[self.key[column]](choose)
                cursor.execute(f"UPDATE {self.name} SET k{column} = %s WHERE {one}", (value, low))
            case _:
                column = choose.randrange(len(self.cells))
                value = self.cells_of(choose)[column]
                cursor.execute(f"UPDATE {self.name} SET c{column} = %s WHERE {near}", (value, low))


@dataclass(slots=True)
class Writers:
    """Threads that change the tables. `errors`: errors that a writer of its kind must not meet."""

    source: Database
    schema: str
    tables: list[RandomTable]
    errors: list[BaseException] = field(default_factory=list)

    def write(self, seed: int, over: Event) -> None:
        choose = random.Random(seed)
        try:
            with (
                MysqlConnection(
                    host=self.source.host,
                    port=self.source.port,
                    user=self.source.user,
                    password=self.source.password,
                    database=self.schema,
                    charset="utf8mb4",
                ) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("SET sql_mode = ''")
                while not over.wait(0.03):
                    self._transact(connection, cursor, choose)
        except BaseException as error:
            self.errors.append(error)

    def _transact(
        self, connection: pymysql.Connection[Cursor], cursor: Cursor, choose: random.Random
    ) -> None:
        try:
            for _ in range(choose.choice((1, 1, 1, 4))):
                choose.choice(self.tables).change(cursor, choose)
        except pymysql.IntegrityError:  # a key that is another row's
            pass
        except pymysql.OperationalError as error:
            if error.args[0] not in (1205, 1213):  # waited for each other
                raise
        if choose.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()


@contextmanager
def writing(
    source: Database, schema: str, tables: list[RandomTable], seed: int, count: int = 3
) -> Iterator[None]:
    """Writes while the block runs. Raises what a writer has met."""
    over, writers = Event(), Writers(source, schema, tables)
    threads = [Thread(target=writers.write, args=(seed + number, over)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if writers.errors:
        raise writers.errors[0]

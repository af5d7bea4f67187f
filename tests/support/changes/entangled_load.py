"""Changes whose order counts: unique values move between rows, children between parents; keys
change, and tables are emptied."""

from __future__ import annotations

import itertools
import random
from threading import Event, Semaphore, Thread

from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.mysql.connection import MysqlConnection
from tests.support.changes.shop import Shop

HALLS = (1, 2, 3)
SEATS = 15  # rows of a hall
FAMILIES = 60
PAUSE_SECONDS = 0.2  # between rounds, so that servers keep up
TABLES = {
    "orders": "id INT PRIMARY KEY, name VARCHAR(40)",
    "log": "level INT, word VARCHAR(9)",
    "seats": "id INT PRIMARY KEY, hall INT NOT NULL, seat INT, UNIQUE (hall, seat)",
    "parents": "id INT PRIMARY KEY, name VARCHAR(40)",
    "children": "parent INT, id INT, word VARCHAR(9), PRIMARY KEY (parent, id), FOREIGN KEY "
    "(parent) REFERENCES {schema}.parents (id)",
    "scratch": "id INT PRIMARY KEY, word VARCHAR(9)",
}


def create_tables(shop: Shop) -> None:
    for name, columns in TABLES.items():
        shop.create(name, columns.format(schema=shop.name))


def scratch_topic(name: str) -> str:
    """The topic of the table that is emptied now and then; it has one partition."""
    return f"{name}_scratch"


def fetch_keys(name: str) -> dict[str, str]:
    """The keys of a fetch task that keep rows which block each other in one partition."""
    return {
        f"loader__source__partitionKey__{name.upper()}__SEATS": "HALL",
        f"loader__source__partitionKey__{name.upper()}__CHILDREN": "PARENT",
        "loader__source__dynamicTopic": f"{scratch_topic(name)}:{name}\\\\.scratch",
    }


class EntangledLoad(Thread):
    """Changes rows of `TABLES` in the rounds that it is granted, so that a slow machine has as much
    to do as a fast one: about a hundred statements a second, every now and then thousands in one
    statement. Ends after the rounds granted before it is `done`."""

    def __init__(self, source: Database, schema: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._source, self._schema, self._choose, self.done = (
            source,
            schema,
            random.Random(seed),
            Event(),
        )
        self._rounds = Semaphore(0)
        self._ids = itertools.count(1)
        self._families: set[int] = set()

    def grant(self, rounds: int) -> None:
        """Lets it change rows this many times more."""
        self._rounds.release(rounds)

    def run(self) -> None:
        at = self._source
        with (
            MysqlConnection(
                host=at.host,
                port=at.port,
                user=at.user,
                password=at.password,
                database=self._schema,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            seats = [(next(self._ids), hall, seat) for hall in HALLS for seat in range(SEATS)]
            cursor.executemany("INSERT INTO seats VALUES (%s, %s, %s)", seats)
            for number in itertools.count():
                if not self._has_round():
                    return
                self._change_orders(cursor, number)
                self._change_log(cursor)
                self._change_seats(cursor)
                self._change_families(cursor)
                self._change_scratch(cursor, number)
                self.done.wait(PAUSE_SECONDS)

    def _has_round(self) -> bool:
        """Waits for a round; False once it is done and none is left."""
        while True:
            # Before: a round may be granted, and all be done, while this one is waited for.
            is_done = self.done.is_set()
            if self._rounds.acquire(timeout=PAUSE_SECONDS):
                return True
            if is_done:
                return False

    def _change_orders(self, cursor: Cursor, number: int) -> None:
        """Rows with a key, which changes."""
        count = 3000 if number % 100 == 0 else 10
        rows = [(number * 10_000 + row + 1, self._choose.choice("abc")) for row in range(count)]
        cursor.executemany("INSERT INTO orders VALUES (%s, %s)", rows)
        cursor.execute(
            "UPDATE orders SET name = RIGHT(CONCAT(name, %s), 40) WHERE id %% 97 = %s",
            (self._choose.choice("xyz"), self._choose.randrange(97)),
        )
        cursor.execute(
            "UPDATE orders SET id = -id WHERE id > 0 AND id %% 101 = %s",
            (self._choose.randrange(101),),
        )
        cursor.execute("DELETE FROM orders WHERE id %% 89 = %s", (self._choose.randrange(89),))

    def _change_log(self, cursor: Cursor) -> None:
        """Rows that are equal to each other and have no key."""
        cursor.executemany(
            "INSERT INTO log VALUES (%s, %s)", [(self._choose.randrange(5), "a") for _ in range(10)]
        )
        cursor.execute("UPDATE log SET level = level + 5 WHERE level < 5 LIMIT 6")
        cursor.execute("DELETE FROM log WHERE level >= %s LIMIT 4", (self._choose.randrange(10),))

    def _change_seats(self, cursor: Cursor) -> None:
        """Unique values move between rows: within a statement, a transaction, or from one
        transaction to the next."""
        hall = self._choose.choice(HALLS)
        cursor.execute("SELECT id, seat FROM seats WHERE hall = %s ORDER BY id", (hall,))
        (one, one_seat), (other, other_seat) = self._choose.sample(cursor.fetchall(), 2)
        cursor.execute(self._choose.choice(("BEGIN", "DO 0")))
        match self._choose.randrange(4):
            case 0:
                cursor.execute(
                    "UPDATE seats SET seat = seat + 1 WHERE hall = %s ORDER BY seat DESC", (hall,)
                )
            case 1:
                for row, seat in ((one, None), (other, one_seat), (one, other_seat)):
                    cursor.execute("UPDATE seats SET seat = %s WHERE id = %s", (seat, row))
            case 2:
                cursor.execute("DELETE FROM seats WHERE id = %s", (one,))
                cursor.execute(
                    "INSERT INTO seats VALUES (%s, %s, %s)", (next(self._ids), hall, one_seat)
                )
            case 3:
                cursor.execute("UPDATE seats SET id = %s WHERE id = %s", (next(self._ids), one))
        cursor.execute("COMMIT")

    def _change_families(self, cursor: Cursor) -> None:
        """Parents are inserted with children, and deleted after them; children, and parents
        without children, change their keys."""
        family = self._choose.randrange(FAMILIES)
        cursor.execute(self._choose.choice(("BEGIN", "DO 0")))
        if family in self._families:
            cursor.execute("DELETE FROM children WHERE parent = %s", (family,))
            cursor.execute("DELETE FROM parents WHERE id = %s", (family,))
        else:
            cursor.execute("INSERT INTO parents VALUES (%s, 'a')", (-family - 1,))
            cursor.execute("UPDATE parents SET id = %s WHERE id = %s", (family, -family - 1))
            cursor.executemany(
                "INSERT INTO children VALUES (%s, %s, 'a')",
                [(family, next(self._ids)) for _ in range(3)],
            )
        self._families ^= {family}
        if self._families:
            adopting = self._choose.choice(sorted(self._families))
            cursor.execute(
                "UPDATE children SET parent = %s, word = 'b' ORDER BY id LIMIT 1", (adopting,)
            )
        cursor.execute("COMMIT")

    def _change_scratch(self, cursor: Cursor, number: int) -> None:
        """Rows of a table that is emptied."""
        if number % 30 == 29:
            cursor.execute("TRUNCATE TABLE scratch")
        cursor.executemany(
            "INSERT INTO scratch VALUES (%s, 'a')", [(next(self._ids),) for _ in range(5)]
        )

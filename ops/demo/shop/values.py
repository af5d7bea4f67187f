"""Random values for the shop's columns, and the statements that carry them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TypeVar

from cdcbus.ops.demo.shop.phrases import DOCUMENTS
from cdcbus.ops.demo.shop.schema import SCHEMA

T = TypeVar("T")
Statement = tuple[str, tuple[object, ...]]

# Just before a leap day.
EPOCH = datetime(2024, 2, 28, 23, 59, 58)


def insert(table: str, **values: object) -> Statement:
    """An INSERT of one row."""
    marks = ", ".join(["%s"] * len(values))
    sql = f"INSERT INTO {SCHEMA}.{table} ({', '.join(values)}) VALUES ({marks})"
    return sql, tuple(values.values())


def update(table: str, where: Mapping[str, object], **values: object) -> Statement:
    """An UPDATE of the rows with these values."""
    changes = ", ".join(map(_equal, values))
    sql = f"UPDATE {SCHEMA}.{table} SET {changes} WHERE {_all_equal(where)}"
    return sql, (*values.values(), *where.values())


def delete(table: str, **where: object) -> Statement:
    """A DELETE of the rows with these values."""
    return f"DELETE FROM {SCHEMA}.{table} WHERE {_all_equal(where)}", tuple(where.values())


def _all_equal(where: Mapping[str, object]) -> str:
    return " AND ".join(map(_equal, where))


def _equal(name: str) -> str:
    return f"{name} = %s"


class Values:
    """Values drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def one_of(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    def maybe(self, value: T) -> T | None:
        """The value, or NULL one time in five."""
        if self.random.random() < 0.2:
            return None
        return value

    def money(self) -> Decimal:
        return Decimal(self.random.randrange(10**6)) / 100

    def decimal(self, digits: int, scale: int) -> Decimal:
        """Any number with at most this many digits, also a negative one."""
        return Decimal(self.random.randrange(-(10**digits) + 1, 10**digits)).scaleb(-scale)

    def moment(self, *, digits: int = 6) -> datetime:
        """A time within some years, with at most this many fractional digits."""
        step = 10 ** (6 - digits)
        return EPOCH + timedelta(
            seconds=self.random.randrange(10**8),
            microseconds=self.random.randrange(10**digits) * step,
        )

    def double(self, most: int) -> float:
        """A number of any size up to 10 to the power of `most`, also a tiny one."""
        return self.random.uniform(-1, 1) * 10.0 ** self.random.randint(-most, most)

    def picture(self) -> bytes | None:
        return self.maybe(self.random.randbytes(self.random.randrange(600)))

    def document(self) -> str | None:
        """The text of a JSON document."""
        document = self.one_of(DOCUMENTS)
        if document is None:
            return None
        if isinstance(document, dict):
            document = {**document, "visits": self.random.randrange(10**6)}
        return json.dumps(document, ensure_ascii=False)

    def taken_out(self, of: list[T]) -> T:
        """An element, which is then no longer in the list."""
        place = self.random.randrange(len(of))
        # Swapped with the last one, as removing from the middle would move all after it.
        of[place], of[-1] = of[-1], of[place]
        return of.pop()

"""The types of values: how each is read from text, and what the error says when it cannot be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cdcbus.plugins.mysql.tls import TlsMode
from cdcbus.plugins.rowchange import Op, TableId
from cdcbus.plugins.time_zone import read_zone
from cdcbus.plugins.transform.table_list import (
    OTHER_SEPARATOR,
    TWO_NAMES,
    TableList,
    read_table_list,
    split_outside_brackets,
)
from cdcbus.tasks.config.keys.schedule import Schedule, read_schedule

Window = tuple[int, int]
"""Start and end, in minutes of the day."""
T_co = TypeVar("T_co", covariant=True)

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T_co]):
    """A type of value. `read` raises ValueError for text that does not fit; `expected` and
    `example` complete the error message.

    `is_secret`: the text is taken verbatim. `is_shown`: an error message may quote a wrong value.
    `has_secret`: whether a text of a secret type holds a secret; None: it always does.
    """

    name: str
    read: Callable[[str], T_co]
    expected: str
    example: str
    is_secret: bool = False
    is_shown: bool = True
    has_secret: Callable[[str], bool] | None = None


def split_list(text: str) -> tuple[str, ...]:
    """The elements of a comma-separated list, trimmed, without empty ones."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def _whole(text: str, least: int, most: int) -> int:
    # Not int() alone, which also takes blanks, underscores and digits of other scripts.
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise ValueError("not a whole number")
    number = int(text)
    if not least <= number <= most:
        raise ValueError("out of range")
    return number


def whole_number(
    least: int = -(2**63), most: int = 2**63 - 1, example: str = "1000"
) -> ValueType[int]:
    """Whole numbers from `least` to `most`."""
    expected = f"a whole number{_limits(least, most)}"
    return ValueType("number", lambda text: _whole(text, least, most), expected, example)


def _limits(least: int, most: int) -> str:
    """The limits in words, without those of 64 bits, which no operator meets."""
    if least < -(2**62):
        return ""
    if most >= 2**62:
        return f" from {least}"
    return f" from {least} to {most}"


def word(*words: str) -> ValueType[str]:
    """A type whose value is one of these words, spelled exactly."""
    return ValueType(
        "word", lambda text: _one_of(text, words), "one of " + ", ".join(words), words[0]
    )


def _one_of(text: str, words: tuple[str, ...]) -> str:
    if text not in words:
        raise ValueError("unknown word")
    return text


def _partitions(text: str) -> tuple[int, ...]:
    numbers = sorted(_whole(element, 0, 2**31 - 1) for element in split_list(text))
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError("none, or one twice")
    return tuple(numbers)


def _flag(text: str) -> bool:
    lowered = text.lower()
    if lowered not in TRUE | FALSE:
        raise ValueError("neither true nor false")
    return lowered in TRUE


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) <= 0:
        raise ValueError("not a duration")
    return float(text)


def _pair(text: str) -> tuple[str, str]:
    parts = list(map(str.strip, text.split(",")))
    if len(parts) != 2 or not all(parts):
        raise ValueError("not two names")
    return parts[0], parts[1]


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    addresses = []
    for element in split_list(text):
        # The last colon, as an IPv6 address has several.
        host, colon, port = element.rpartition(":")
        if not colon or not host or re.search(r"[\s/@]", host) or OTHER_SEPARATOR.search(host):
            raise ValueError("not host:port")
        # Raises a ValueError, as a look-up would, where a part of the name is empty or too long.
        host.encode("idna")
        addresses.append((host.strip("[]"), _whole(port, 1, 65535)))
    if not addresses:
        raise ValueError("empty")
    return tuple(addresses)


def _table(text: str) -> TableId:
    schema, dot, table = text.partition(".")
    if not (schema and dot and table) or "*" in text:
        raise ValueError("not SCHEMA.TABLE")
    return TableId(schema, table)


def _regexes(text: str) -> tuple[str, ...]:
    parts = tuple(filter(None, map(str.strip, split_outside_brackets(text))))
    for part in parts:
        if OTHER_SEPARATOR.search(part) or TWO_NAMES.search(part):
            raise ValueError("separated otherwise than by commas")
        try:
            re.compile(part)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError("not a regular expression") from error
    return parts


def _operations(text: str) -> frozenset[Op]:
    found = frozenset(map(Op, split_list(text.upper())))
    # A task without any rows is a mistake.
    if found >= {Op.INSERT, Op.UPDATE, Op.DELETE}:
        raise ValueError("all operations")
    return found


def _windows(text: str) -> tuple[Window, ...]:
    windows = []
    for element in split_list(text):
        found = re.fullmatch(
            r"([01]?[0-9]|2[0-4]):([0-5][0-9])-([01]?[0-9]|2[0-4]):([0-5][0-9])", element
        )
        if not found:
            raise ValueError("not HH:MM-HH:MM")
        begin = int(found[1]) * 60 + int(found[2])
        end = int(found[3]) * 60 + int(found[4])
        if begin == end or max(begin, end) > 24 * 60:
            raise ValueError("not a time of day")
        windows.append((begin, end))
    return tuple(windows)


def _path_name(text: str) -> str:
    # ZooKeeper forbids these as the name of a znode; of an empty one the path would be that of the
    # folder.
    if (
        not text
        or "/" in text
        or text in {".", "..", "zookeeper"}
        or not text.isprintable()
        or re.search("[\ufff0-\U0010ffff]", text)
    ):
        raise ValueError("not a name")
    return text


def _digest(text: str) -> str:
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise ValueError("not user:password")
    return text


def _jdbc_url(text: str) -> str:
    if not re.match(r"jdbc:(mysql|mariadb|postgresql|oracle:thin):.*\S", text):
        raise ValueError("not a JDBC address")
    return text


def _zone(text: str) -> str:
    read_zone(text)
    return text


TIME_ZONE: ValueType[str] = ValueType(
    "time zone",
    _zone,
    "an IANA time zone name, with its capital letters, or an offset; abbreviations such as CST are "
    "ambiguous",
    "Asia/Shanghai or +08:00",
)
TEXT: ValueType[str] = ValueType("text", str, "text", "abc")
SECRET: ValueType[str] = ValueType(
    "secret", str, "text", "${env:DB_PASSWORD}", is_secret=True, is_shown=False
)
DIGEST: ValueType[str] = ValueType(
    "secret",
    _digest,
    "user:password",
    "cdc:${env:ZOOKEEPER_PASSWORD}",
    is_secret=True,
    is_shown=False,
)
FLAG: ValueType[bool] = ValueType("true/false", _flag, "true or false", "true")
NUMBER: ValueType[int] = whole_number()
NATURAL: ValueType[int] = whole_number(0)
POSITIVE: ValueType[int] = whole_number(1, example="10")
SERVER_ID: ValueType[int] = whole_number(0, 2**32 - 1, "1484")
PARTITIONS: ValueType[tuple[int, ...]] = ValueType(
    "numbers", _partitions, "numbers from 0, each once, separated by commas", "0,2"
)
BYTES: ValueType[int] = ValueType(
    "bytes",
    lambda text: _whole(text, 1 << 20, 1 << 40),
    "a number of bytes, 1048576 (1 MiB) or more",
    "67108864",
)
SECONDS: ValueType[float] = ValueType("seconds", _seconds, "seconds above 0", "1")
WINDOWS: ValueType[tuple[Window, ...]] = ValueType(
    "times of day", _windows, "HH:MM-HH:MM, several separated by commas", "08:00-20:00,22:00-02:00"
)
SCHEDULE: ValueType[Schedule] = ValueType(
    "schedule",
    read_schedule,
    "an interval in minutes, hours or days (30m, 6h, 1d), or the five fields of cron (minute, "
    "hour, day, month, weekday)",
    "0 3 * * *",
)
NAMES: ValueType[tuple[str, ...]] = ValueType(
    "list", split_list, "names separated by commas", "T_ORDER,T_USER"
)
PAIR: ValueType[tuple[str, str]] = ValueType(
    "pair", _pair, "two names separated by a comma: source,target", "SHOP,shop_copy"
)
TABLE: ValueType[TableId] = ValueType("table", _table, "SCHEMA.TABLE", "shop.cdcbus_heartbeat")
TABLES: ValueType[TableList] = ValueType(
    "tables",
    read_table_list,
    "SCHEMA.TABLE or SCHEMA.* or a regular expression with \\\\. between schema and table and .* "
    "for any text, several separated by commas",
    r"SHOP.ORDERS,shop\\.t_[0-9]+",
)
ADDRESSES: ValueType[tuple[tuple[str, int], ...]] = ValueType(
    "addresses", _addresses, "host:port, several separated by commas", "db1:3306,db2:3306"
)
REGEXES: ValueType[tuple[str, ...]] = ValueType(
    "regexes",
    _regexes,
    "regular expressions that match the whole of schema.table, separated by commas",
    r"shop\\.orders,shop\\.t_.*",
)
OPERATIONS: ValueType[frozenset[Op]] = ValueType(
    "operations",
    _operations,
    "INSERT, UPDATE, DELETE, TRUNCATE, several separated by commas, not all",
    "DELETE,TRUNCATE",
)
PATH_NAME: ValueType[str] = ValueType("name", _path_name, "a name without / or line breaks", "1084")


def is_path_name(word: str) -> bool:
    """Whether a word can be a name of a task or a node."""
    try:
        return bool(PATH_NAME.read(word))
    except ValueError:
        return False


JDBC_URL: ValueType[str] = ValueType(
    "JDBC address",
    _jdbc_url,
    "jdbc:mysql:, jdbc:mariadb:, jdbc:postgresql: or jdbc:oracle:thin: with its address",
    "jdbc:postgresql://db1:5432/shop",
    # Addresses may hold passwords.
    is_shown=False,
)
ANY_ADDRESS: ValueType[str] = ValueType(
    "address", str, "the target's address", "jdbc:postgresql://db1:5432/shop", is_shown=False
)
TLS_MODE: ValueType[TlsMode] = ValueType(
    "word",
    lambda text: TlsMode(text.lower().replace("_", "-")),
    "one of " + ", ".join(TlsMode) + ", any case",
    TlsMode.VERIFY_CA,
)
ON_ERROR: ValueType[str] = word("stop", "deadletter")
SCHEMA_CHANGE: ValueType[str] = word("stop", "ignore", "evolve")
ZERO_DATE: ValueType[str] = word("reject", "null", "epoch")
ROW_IMAGE: ValueType[str] = word("full", "any")
ON_STATEMENT: ValueType[str] = word("stop", "skip")
SNAPSHOT: ValueType[str] = word("never", "initial", "only")
CONSUMER: ValueType[str] = ValueType("word", str, "a source's name", "CanalFetch")
LOADER_NAME: ValueType[str] = ValueType("word", str, "a loader's name", "JdbcBatch")
EDGE: ValueType[str] = word("earliest", "latest")
START: ValueType[str] = ValueType("start", str, "text", "1343115467")

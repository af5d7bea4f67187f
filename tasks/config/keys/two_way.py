"""The keys of replication in both directions: changes from the other side are not sent back."""

from __future__ import annotations

import re

from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.types import ValueType, split_list

# The mark is part of a table's name, cdcbus_mark_<MARK>, which then needs no quotes.
_MARK = re.compile(r"[a-z0-9_]{1,40}")
_DIGITS = re.compile("[0-9]+")
_GTID_SOURCE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{1,10}-[0-9]{1,10}")


def _mark(text: str) -> str:
    if not _MARK.fullmatch(text):
        raise ValueError("not a mark")
    return text


def _marks(text: str) -> frozenset[str]:
    return frozenset(map(_mark, split_list(text)))


def _server_ids(text: str) -> frozenset[int]:
    parts = split_list(text)
    if not all(map(_DIGITS.fullmatch, parts)):
        raise ValueError("not server ids")
    numbers = frozenset(map(int, parts))
    # Fewer numbers than parts: one was given twice.
    if len(numbers) < len(parts) or max(numbers, default=0) >= 2**32:
        raise ValueError("not server ids")
    return numbers


def _gtid_sources(text: str) -> frozenset[str]:
    sources = frozenset(split_list(text.lower()))
    if not all(map(_GTID_SOURCE.fullmatch, sources)):
        raise ValueError("not GTID sources")
    return sources


MARK: ValueType[str] = ValueType("mark", _mark, "small letters, digits and _, 40 at most", "from_b")
MARKS: ValueType[frozenset[str]] = ValueType(
    "marks", _marks, "marks separated by commas, as in loader.mark", "from_b,from_c"
)
SERVER_IDS: ValueType[frozenset[int]] = ValueType(
    "numbers", _server_ids, "server ids separated by commas", "2,3"
)
GTID_SOURCES: ValueType[frozenset[str]] = ValueType(
    "GTID sources",
    _gtid_sources,
    "servers' UUIDs, or domain-server of MariaDB, separated by commas",
    "3e11fa47-71ca-11e1-9e33-c80aa9429562 or 0-2",
)

EXCLUDE_MARKS = "consumer.source.excludeMarks"
EXCLUDE_SERVER_IDS = "consumer.source.excludeServerIds"
EXCLUDE_GTID_SOURCES = "consumer.source.excludeGtidSources"
LOADER_MARK = "loader.mark"
TWO_WAY_KEYS = (
    Key(
        EXCLUDE_MARKS,
        MARKS,
        "",
        "Does not send transactions that tasks with one of these `loader.mark` values wrote to "
        "this server: they came from the other side. See "
        "[both directions](loading.md#both-directions).",
        "not known",
        Route.FETCH,
    ),
    Key(
        EXCLUDE_SERVER_IDS,
        SERVER_IDS,
        "",
        "Does not send changes that originated on these servers, where the source replicates from "
        "them natively.",
        "not known",
        Route.FETCH,
    ),
    Key(
        EXCLUDE_GTID_SOURCES,
        GTID_SOURCES,
        "",
        "Does not send changes whose GTID begins with one of these UUIDs; for MariaDB, with one of "
        "these `domain-server` pairs.",
        "not known",
        Route.FETCH,
    ),
    Key(
        LOADER_MARK,
        MARK,
        "",
        "Begins each transaction in a MySQL or MariaDB target with a row in table "
        "`cdcbus_mark_<MARK>`, by which a fetch task on that server recognizes it: "
        "`consumer.source.excludeMarks`.",
        "not known",
        Route.LOAD,
    ),
)

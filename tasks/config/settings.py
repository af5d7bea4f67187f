"""The entries of one task file as typed values, checked against the table of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from cdcbus.plugins.transform.table_list import TableList
from cdcbus.tasks.config.diagnostics import Diagnostics, Severity
from cdcbus.tasks.config.keys.definition import Route
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.keys.types import ADDRESSES, TABLES, ValueType
from cdcbus.tasks.config.parser import Entry

T = TypeVar("T")
# Of a wrong value, so that the sentence fits a terminal's line or two.
SHOWN_CHARACTERS = 60


class Settings:
    """Typed access to entries. An empty value counts as absent. A wrong value is reported once,
    when this is created. `value_types`: the keys whose value has another type than in the table of
    keys."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        diagnostics: Diagnostics,
        value_types: Mapping[str, ValueType[Any]] | None = None,
    ) -> None:
        self.entries = entries
        self._diagnostics = diagnostics
        self._values: dict[str, Any] = {}
        for entry in entries.values():
            key = find_key(entry.key)
            if key is not None:
                self._read(entry, (value_types or {}).get(entry.key, key.value_type))

    def _read(self, entry: Entry, value_type: ValueType[Any]) -> None:
        # `get` may read it again with a narrower type.
        self._values.pop(entry.key, None)
        text = entry.value.strip()
        if not text:
            return
        # Blanks at the ends of a secret are a part of it.
        if value_type.is_secret:
            text = entry.value
        try:
            self._values[entry.key] = value_type.read(text)
        # OverflowError: a date or number beyond what Python's types hold.
        except (ValueError, OverflowError):
            fault = "wrong value"
            # What precedes an @ can be a login, in whatever key somebody has written it.
            if value_type.is_shown and "@" not in entry.written:
                fault = f"wrong value {_short(entry.written)}"
            self.error(entry.key, fault, value_type)

    def get(self, name: str, value_type: ValueType[T]) -> T | None:
        """The value of a key, else its default, else None. `value_type` is the table's type, or a
        narrower one."""
        key = find_key(name)
        assert key is not None, name
        if value_type is not key.value_type and name in self.entries:
            self._read(self.entries[name], value_type)
        if name in self._values:
            value: T = self._values[name]
            return value
        if not key.default:
            return None
        return value_type.read(key.default)

    def need(self, name: str, value_type: ValueType[T], otherwise: T) -> T:
        """The value of a required key; where it is missing, reports an error and returns
        `otherwise`."""
        value = self.get(name, value_type)
        if value is not None:
            return value
        # A wrong value is reported already.
        if not self.has(name):
            self.error(name, "missing", value_type)
        return otherwise

    def servers(self, name: str) -> str:
        """The brokers in the form that Kafka's clients take."""
        brokers = []
        for host, port in self.need(name, ADDRESSES, ()):
            # An IPv6 address needs brackets, or its port would be read as a part of it.
            shown = f"[{host}]" if ":" in host else host
            brokers.append(f"{shown}:{port}")
        return ",".join(brokers)

    def has(self, name: str) -> bool:
        """Whether the file gives the key a value, right or wrong."""
        return name in self.entries and bool(self.entries[name].written.strip())

    def below(self, *prefixes: str) -> dict[str, str]:
        """The rest of each name after one of the prefixes -> its text; a later prefix wins."""
        found: dict[str, str] = {}
        for prefix in prefixes:
            for entry in self.entries.values():
                if entry.key.startswith(prefix) and entry.key != prefix:
                    found[entry.key.removeprefix(prefix)] = entry.value
        return found

    def keys_below(self, prefix: str) -> dict[str, str]:
        """The rest of each name after the prefix -> the key, of the keys that have a value. The
        bare prefix, which names nothing, is no key."""
        found: dict[str, str] = {}
        for name in self.entries:
            if name.startswith(prefix) and name != prefix and self.has(name):
                found[name.removeprefix(prefix)] = name
        return found

    def error(self, name: str, what: str, value_type: ValueType[Any]) -> None:
        """Reports an error at a key: the fault, the expected form, an example."""
        self._report(
            Severity.ERROR,
            name,
            f"{what}; expected {value_type.expected}; example: {name}={value_type.example}",
        )

    def reject(self, name: str, sentence: str) -> None:
        """Reports an error in the combination of keys."""
        self._report(Severity.ERROR, name, sentence)

    def unsafe(self, name: str, sentence: str) -> None:
        """Reports an error that `check.allow` turns into a note."""
        line, origin = self._place(name)
        self._diagnostics.unsafe(line, name, sentence + origin)

    def warn(self, name: str, sentence: str) -> None:
        self._report(Severity.WARNING, name, sentence)

    def note(self, name: str, sentence: str) -> None:
        self._report(Severity.NOTE, name, sentence)

    def _report(self, severity: Severity, name: str, sentence: str) -> None:
        line, origin = self._place(name)
        self._diagnostics.add(severity, line, name, sentence + origin)

    def _place(self, name: str) -> tuple[int, str]:
        """The line of a key, and the suffix that names its source; of a missing key 0 and empty."""
        entry = self.entries.get(name)
        if entry is None:
            return 0, ""
        return entry.line, entry.origin

    def answer(self, route: Route, task: str) -> None:
        """Reports each entry that has no effect on this route, as a note or a warning."""
        for entry in self.entries.values():
            key = find_key(entry.key)
            if key is None:
                continue
            if key.dead:
                self.warn(entry.key, key.dead)
            elif key.answer and (key.route == Route.ANY or not key.is_for(route)):
                self.note(entry.key, key.answer)
            elif not key.is_for(route):
                self.warn(
                    entry.key,
                    f"without effect in {task}; remove the line or check consumer.consumerName "
                    "and loader.loaderName",
                )


def tables(settings: Settings) -> tuple[TableList, TableList]:
    """The tables to include, and the tables to exclude."""
    includes = settings.get("consumer.includes", TABLES) or TableList()
    excludes = settings.get("consumer.excludes", TABLES) or TableList()
    # porter looks at its excludes only where it has no includes.
    if includes and excludes and not includes.patterns:
        settings.note("consumer.excludes", "without effect with consumer.includes, as in porter")
    return includes, excludes


def _short(text: str) -> str:
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + "..."
    return repr(text)

"""The tables that a statement logged as text may change: read from its beginning, without its
values. Pure.

The result may hold more tables than the text names, never fewer. Further changes by views,
triggers, foreign keys and stored functions are not in its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.session_variables import CHARSET, SQL_MODE, session_variables
from cdcbus.producer.ddl.tokens import ANSI_QUOTES, NO_BACKSLASH_ESCAPES

_MODIFIERS = {"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "QUICK", "HISTORY"}
_JOINS = {",", "JOIN", "STRAIGHT_JOIN"}
_QUERIES = {"SELECT", "WITH", "VALUES", "TABLE"}
_AFTER_TABLES = {"WHERE", "ORDER", "LIMIT", "RETURNING", ""}


@dataclass(frozen=True, slots=True)
class Targets:
    """`kind`: INSERT and so on. `tables`: None if they are not certain."""

    kind: str
    tables: frozenset[TableId] | None

    def __str__(self) -> str:
        if self.tables is None:
            return f"{self.kind} into a table that its text does not name for certain"
        return f"{self.kind} of {', '.join(sorted(map(str, self.tables)))}"


class Session(NamedTuple):
    """The properties of a session needed to read its statements: its schema, its sql_mode, the
    number of its client's collation, 0 if unknown."""

    schema: str = ""
    sql_mode: int = 0
    collation: int = 0


def session(body: bytes) -> Session:
    """Reads the session from a Query event's body."""
    end = 13 + int.from_bytes(body[11:13], "little")
    schema = body[end : end + body[8]].decode("utf-8", "replace")
    found = session_variables(body[13:end])
    # An event without a variable has no bytes for it, which is zero.
    mode = int.from_bytes(found.get(SQL_MODE, b"")[:8], "little")
    collation = int.from_bytes(found.get(CHARSET, b"")[:2], "little")
    return Session(schema, mode, collation)


def targets(sql: bytes, of: Session, *, is_utf8: bool = True) -> Targets:
    """The targets of INSERT, REPLACE, UPDATE, DELETE, LOAD and CREATE TABLE, also after WITH,
    ANALYZE and SET STATEMENT; those of any other statement are not certain. `is_utf8`: non-ASCII
    bytes are UTF-8; else they make the targets uncertain."""
    reader = _Reader(_tokens(sql, of.sql_mode, is_utf8=is_utf8), of.schema)
    try:
        reader.front()
        return Targets(reader.kind, frozenset(reader.tables()))
    except (_UnclearError, UnicodeDecodeError):
        return Targets(reader.kind, None)


class _UnclearError(Exception):
    """The text does not name its tables for certain."""


class _Token(NamedTuple):
    """`word`: an unquoted word in upper case, or one other character; empty at the end. `name`: the
    token as an identifier, if it can be one."""

    word: str
    name: str = ""


_END = _Token("")
_SKIPPED = rb"(?:\s|/\*(?!M?!).*?\*/|(?:#|--(?=\s|$))[^\n]*)*"
_IDENTIFIER = rb"`((?:[^`]|``)*)`"
_PLAIN = rb"([0-9A-Za-z_$\x80-\xff]+)"
_WITH_ESCAPES = rb"'(?:[^'\\]|\\.|'')*'", rb'"(?:[^"\\]|\\.|"")*"'
_WITHOUT = rb"'(?:[^']|'')*'", rb'"(?:[^"]|"")*"'
_ANSI = rb'"((?:[^"]|"")*)"'


def _tokens(sql: bytes, mode: int, *, is_utf8: bool) -> Iterator[_Token]:
    single, double = _WITH_ESCAPES
    if mode & NO_BACKSLASH_ESCAPES:
        single, double = _WITHOUT
    # Both have the group of an ANSI identifier; without ANSI_QUOTES it never matches.
    identifier, string = _IDENTIFIER + rb"|(?!)()", single + rb"|" + double
    if mode & ANSI_QUOTES:
        identifier, string = _IDENTIFIER + rb"|" + _ANSI, single
    token = re.compile(
        _SKIPPED + rb"(?:" + identifier + rb"|(" + string + rb")|" + _PLAIN + rb"|(.)|$)", re.DOTALL
    )
    at = 0
    while found := token.match(sql, at):
        at = found.end()
        if not (is_utf8 or found[0].isascii()):  # a byte of a character can look like a quote
            raise _UnclearError
        quoted, ansi, text, word, other = found.groups()
        if quoted is not None:
            yield _Token("`", quoted.decode().replace("``", "`"))
        elif ansi is not None:
            yield _Token("`", ansi.decode().replace('""', '"'))
        elif text is not None:
            yield _Token("'")
        elif word is not None:
            yield _Token(word.decode().upper(), word.decode())
        elif other is None:
            return
        # an executable comment, or a quote or comment without an end
        elif other in b"/'\"`" and (other != b"/" or sql[at : at + 1] == b"*"):
            raise _UnclearError
        else:
            yield _Token(other.decode("latin-1"))


class _Reader:
    """Reads one statement, no further than needed."""

    def __init__(self, tokens: Iterator[_Token], schema: str) -> None:
        self._tokens, self._schema = tokens, schema
        self._ahead: list[_Token] = []
        self.kind = "statement"

    def _peek(self) -> _Token:
        if not self._ahead:
            self._ahead.append(next(self._tokens, _END))
        return self._ahead[0]

    def _next(self) -> _Token:
        token = self._peek()
        self._ahead.clear()
        return token

    def _skip_to(self, words: set[str]) -> _Token:
        """Reads up to the first of these words outside parentheses, and returns it."""
        while (token := self._next()).word not in words:
            if token is _END:
                raise _UnclearError
            if token.word == "(":
                self._skip_group()
        return token

    def _skip_group(self) -> None:
        depth = 1
        while depth:
            token = self._next()
            if token is _END:
                raise _UnclearError
            depth += (token.word == "(") - (token.word == ")")

    def _skip(self, words: set[str]) -> None:
        while self._peek().word in words:
            self._next()

    def front(self) -> None:
        """Reads up to the verb, which is the statement's kind."""
        token = self._next()
        if token.word == "SET" and self._peek().word == "STATEMENT":
            self._skip_to({"FOR"})
            token = self._next()
        if token.word == "ANALYZE":
            token = self._next()
            if token.word == "FORMAT":
                self._next()
                self._next()
                token = self._next()
        if token.word == "WITH":
            token = self._skip_to({"INSERT", "REPLACE", "UPDATE", "DELETE", "SELECT"})
        if token.word in (
            "INSERT",
            "REPLACE",
            "UPDATE",
            "DELETE",
            "LOAD",
            "CREATE",
            "SELECT",
            "DO",
        ):
            self.kind = token.word

    def tables(self) -> set[TableId]:
        match self.kind:
            case "INSERT" | "REPLACE":
                self._skip({*_MODIFIERS, "INTO"})
                return {self._table()}
            case "UPDATE":
                self._skip({"LOW_PRIORITY", "IGNORE"})
                return {table for table, _ in self._references({"SET"})}
            case "DELETE":
                return self._deleted()
            case "LOAD":
                self._skip_to({"INTO"})
                self._expect("TABLE")
                return {self._table()}
            case "CREATE":
                self._skip({"OR", "REPLACE", "TEMPORARY"})
                self._expect("TABLE")
                if self._peek().word == "IF":
                    self._skip({"IF", "NOT", "EXISTS"})
                return {self._table()}
        raise _UnclearError

    def _expect(self, word: str) -> None:
        if self._next().word != word:
            raise _UnclearError

    def _deleted(self) -> set[TableId]:
        self._skip(_MODIFIERS)
        if self._peek().word != "FROM":
            names = self._names({"FROM"})
            return self._resolved(names, self._references(_AFTER_TABLES))
        self._next()
        names = self._names({"USING", *_AFTER_TABLES})
        if self._next().word == "USING":
            return self._resolved(names, self._references(_AFTER_TABLES))
        if len(names) != 1:
            raise _UnclearError
        return {self._identified(names[0])}

    def _names(self, ends: set[str]) -> list[list[str]]:
        """Reads a list of names up to one of these words, of which only FROM is read. An alias and
        partitions may follow a single name."""
        found = [self._chain()]
        while self._peek().word == ",":
            self._next()
            found.append(self._chain())
        while self._peek().word not in ends:
            token = self._next()
            if token is _END or token.word in _JOINS or len(found) > 1:
                raise _UnclearError
            if token.word == "(":
                self._skip_group()
        if self._peek().word == "FROM":
            self._next()
        return found

    def _resolved(
        self, names: list[list[str]], references: list[tuple[TableId, str]]
    ) -> set[TableId]:
        """The tables of names that may be aliases."""
        found: set[TableId] = set()
        for name in names:
            same = set()
            for table, alias in references:
                if name[-1].lower() in (alias.lower(), table.table.lower()):
                    same.add(table)
            if not same:
                raise _UnclearError
            found |= same
            if len(name) > 1:
                found.add(self._identified(name))
        return found

    def _references(self, ends: set[str]) -> list[tuple[TableId, str]]:
        """Reads joined tables up to and including one of these words; returns each with its alias
        or name."""
        found: list[tuple[TableId, str]] = []
        is_awaited, depth = True, 0
        while True:
            token = self._peek()
            if is_awaited:
                if token.word == "(":
                    self._next()
                    if self._peek().word in _QUERIES:
                        self._skip_group()
                        is_awaited = False
                    else:
                        depth += 1
                    continue
                table = self._table()
                if self._peek().word == "AS":
                    self._next()
                found.append((table, self._peek().name or table.table))
                is_awaited = False
                continue
            self._next()
            if not depth and token.word in ends:
                return found
            if token is _END:
                raise _UnclearError
            if token.word == "(":
                self._skip_group()
            elif token.word == ")":
                depth -= 1
            elif token.word in _JOINS:
                is_awaited = True

    def _table(self) -> TableId:
        return self._identified(self._chain())

    def _identified(self, name: list[str]) -> TableId:
        if len(name) == 1 and not self._schema:
            raise _UnclearError
        if len(name) == 2:
            return TableId(*name)
        return TableId(self._schema, name[-1])

    def _chain(self) -> list[str]:
        """Reads `table` or `schema.table`, and drops a `.*` after it."""
        found = [self._name()]
        while self._peek().word == ".":
            self._next()
            if self._peek().word == "*":
                self._next()
                break
            found.append(self._name())
        if len(found) > 2:
            raise _UnclearError
        return found

    def _name(self) -> str:
        token = self._next()
        if not token.name:
            raise _UnclearError
        return token.name

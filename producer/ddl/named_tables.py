"""The tables that a statement names, and what happens to them, by its first words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.statements import StatementReader, is_rename
from cdcbus.producer.ddl.token_reader import NotUnderstood, TokenReader, split_at_commas
from cdcbus.producer.ddl.tokens import PLAIN, Kind, NoTokens, Session, Token, tokens

_MODIFIERS = ("ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")


@dataclass(frozen=True, slots=True)
class Named:
    """A table that a statement concerns, by the name that it has afterwards. `kind` is canal's word
    for what happens to it; `was`: its name before a RENAME."""

    kind: str
    table: TableId
    was: TableId | None = None
    is_temporary: bool = False


def named(sql: bytes, schema: str, session: Session = PLAIN) -> list[Named] | None:
    """The tables that a statement defines or truncates, in its order; `schema` is the session's.
    Empty for any other statement; None if it is not understood."""
    try:
        text = sql.decode(session.encoding)
        return _NameReader(tokens(text, session), schema, session).names()
    except (UnicodeDecodeError, NoTokens, NotUnderstood):
        return None


def fills_table(sql: bytes, session: Session) -> bool:
    """Whether a CREATE TABLE fills the table from SELECT, VALUES or TABLE."""
    try:
        found = tokens(sql.decode("utf-8" if session.is_exact else "latin-1"), session)
    except (NoTokens, UnicodeDecodeError):
        return re.search(rb"\b(?:SELECT|VALUES)\b", sql, re.IGNORECASE) is not None
    words = []
    for token in found:
        # names and strings are blanks: they are never keywords
        word = " "
        if token.kind in (Kind.WORD, Kind.SIGN):
            word = token.text.upper()
        words.append(word)
    start = 0
    if "TABLE" in words:
        start = words.index("TABLE") + 1
    for at in range(start + 1, len(words)):
        if words[at - 1] == ".":  # the name of a table or column
            continue
        if words[at] in ("SELECT", "TABLE"):
            return True
        # elsewhere VALUES is part of a partition's definition: VALUES LESS THAN, VALUES IN
        if words[at] == "VALUES" and words[at + 1 : at + 2] in (["("], ["ROW"]):
            return True
    return False


class _NameReader(StatementReader):
    """Reads a statement only as far as the names of its tables."""

    def names(self) -> list[Named]:
        verb = self.verb()
        if verb not in ("ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"):
            return []
        self.take()
        if verb == "RENAME":
            return self._renamed()
        if verb == "TRUNCATE":
            return [self._truncated()]
        self.skip("OR", "REPLACE")
        is_temporary = self.skip("TEMPORARY")
        self.skip_all_of(_MODIFIERS)
        if self.skip("INDEX"):
            kind = "DINDEX"
            if verb == "CREATE":
                kind = "CINDEX"
            return [self._indexed(kind)]
        if not self.skip_one_of("TABLE", "TABLES"):
            return []
        self.skip_one_of("IF NOT EXISTS", "IF EXISTS")
        first = self.table()
        if verb == "ALTER":
            return [self._altered(first)]
        if verb == "CREATE":
            return [Named("CREATE", first, None, is_temporary)]
        found = [Named("ERASE", first, None, is_temporary)]
        while self.skip(","):
            found.append(Named("ERASE", self.table(), None, is_temporary))
        return found

    def _renamed(self) -> list[Named]:
        found = []
        for change in self.renamings():
            found.append(Named("RENAME", change.to, change.table))
        return found

    def _truncated(self) -> Named:
        self.skip("TABLE")
        table = self.table()
        self.skip_wait()
        # of MariaDB's sql_mode ORACLE
        self.skip_one_of("DROP STORAGE", "REUSE STORAGE")
        self.end()
        return Named("TRUNCATE", table)

    def _altered(self, table: TableId) -> Named:
        """Classifies ALTER TABLE by its first action, as canal does; any of them can rename."""
        self.skip_wait()
        parts = split_at_commas(self.rest())
        kind = _kind_of(parts[0])
        for part in parts:
            if is_rename(part):
                to = StatementReader(part[1:], self._schema, self._session)
                return Named(kind, to.new_name(), table)
        return Named(kind, table)

    def _indexed(self, kind: str) -> Named:
        self.skip_one_of("IF NOT EXISTS", "IF EXISTS")
        self.name()
        if self.skip("USING"):
            self.take()
        self.expect("ON")
        return Named(kind, self.table())


def _kind_of(action: Sequence[Token]) -> str:
    """canal's word for an action of ALTER TABLE."""
    if is_rename(action):
        return "RENAME"
    reader = TokenReader(action)
    kind = "ALTER"
    if reader.skip("ADD"):
        kind = "CINDEX"
    elif reader.skip("DROP"):
        kind = "DINDEX"
    reader.skip_one_of("UNIQUE", "FULLTEXT", "SPATIAL")
    if reader.word() not in ("INDEX", "KEY"):
        return "ALTER"
    return kind

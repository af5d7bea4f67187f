"""The tables that a statement names, and what happens to them and their rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.statements import StatementReader, is_rename
from cdcbus.producer.ddl.token_reader import NotUnderstood, TokenReader, split_at_commas
from cdcbus.producer.ddl.tokens import PLAIN, Kind, NoTokens, Session, Token, tokens

MODIFIERS = ("ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
# In a CREATE TABLE that has no tokens.
_MAY_FILL = re.compile(
    r"\b(?:SELECT|VALUES|TABLE\b.*\bTABLE)\b", re.ASCII | re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Named:
    """A table that a statement concerns, by the name that it has afterwards. `kind` is canal's word
    for what happens to it; `was`: its name before a RENAME; `other`: a table with which an ALTER
    exchanges rows, of which the binlog has no row events; `is_import`: nor has it any of rows that
    come with a file. `if_missing`: a CREATE may have left a table as it was."""

    kind: str
    table: TableId
    was: TableId | None = None
    is_temporary: bool = False
    other: TableId | None = None
    is_import: bool = False
    if_missing: bool = False

    @property
    def has_other_rows(self) -> bool:
        """Whether its name stands for other rows from here on."""
        return self.was is not None or self.other is not None or self.is_import


def named(sql: bytes, schema: str, session: Session = PLAIN) -> list[Named] | None:
    """The tables that a statement defines or truncates, in its order; `schema` is the session's.
    Empty for any other statement; None if it is not understood."""
    try:
        text = sql.decode(session.encoding)
        return NameReader(tokens(text, session), schema, session).names()
    except (UnicodeDecodeError, NoTokens, NotUnderstood):
        return None


def fills_table(sql: bytes, session: Session) -> bool:
    """Whether a CREATE TABLE fills the table from SELECT, VALUES or TABLE."""
    blanks = "\xa0"
    try:
        text = sql.decode("utf-8" if session.is_exact else "latin-1")
    except UnicodeDecodeError:
        text = sql.decode("latin-1")
    if not session.is_exact:
        blanks += "\xff"
    # A no-break space is a blank in some character sets, a letter in others.
    readings = {re.sub(f"[{blanks}]", each, text) for each in " z"}
    return any(_fills_table(each, session) for each in readings)


def _fills_table(text: str, session: Session) -> bool:
    try:
        found = tokens(text, session)
    except NoTokens:
        return _MAY_FILL.search(text) is not None
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


class NameReader(StatementReader):
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
        self.skip_all_of(MODIFIERS)
        if self.skip("INDEX"):
            kind = "DINDEX"
            if verb == "CREATE":
                kind = "CINDEX"
            return [self._indexed(kind)]
        if not self.skip_one_of("TABLE", "TABLES"):
            return []
        if_missing = self.skip("IF", "NOT", "EXISTS") and not self._session.is_change
        self.skip("IF", "EXISTS")
        first = self.table()
        if verb == "ALTER":
            return [self._altered(first)]
        if verb == "CREATE":
            return [Named("CREATE", first, None, is_temporary, if_missing=if_missing)]
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
                return Named(kind, self.new_name_of(part), table)
        other = self.other(parts[0])
        return Named(kind, table, other=other, is_import=_is_import(parts[0]))

    def new_name_of(self, rename: Sequence[Token]) -> TableId:
        """A table's name after an action of ALTER TABLE that renames it."""
        return StatementReader(rename[1:], self._schema, self._session).new_name()

    def other(self, action: Sequence[Token]) -> TableId | None:
        """The table that an action of ALTER TABLE makes a partition, makes of one, or exchanges
        for one."""
        reader = StatementReader(action, self._schema, self._session)
        if reader.skip("CONVERT", "TABLE"):  # MariaDB's, as the next
            return reader.table()
        if reader.skip("CONVERT", "PARTITION"):
            reader.name()
            reader.expect("TO", "TABLE")
            return reader.table()
        if reader.skip("EXCHANGE", "PARTITION"):
            reader.name()
            reader.expect("WITH", "TABLE")
            return reader.table()
        return None

    def _indexed(self, kind: str) -> Named:
        self.skip_one_of("IF NOT EXISTS", "IF EXISTS")
        self.name()
        if self.skip("USING"):
            self.take()
        self.expect("ON")
        return Named(kind, self.table())


def _is_import(action: Sequence[Token]) -> bool:
    """Whether it gives the table, or some of its partitions, a file with other rows."""
    return TokenReader(action).skip_one_of("IMPORT TABLESPACE", "IMPORT PARTITION")


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

"""The tables that a statement names, and what happens to them and their rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.statements import StatementReader, is_rename
from cdcbus.producer.ddl.token_reader import NotUnderstood, TokenReader, keywords, split_at_commas
from cdcbus.producer.ddl.tokens import PLAIN, STRICT, Kind, NoTokens, Session, Token, tokens

_MODIFIERS = ("ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
# What ADD and DROP concern besides columns.
_NO_COLUMNS = keywords(
    "INDEX KEY UNIQUE PRIMARY FULLTEXT SPATIAL VECTOR FOREIGN CONSTRAINT CHECK PARTITION PERIOD "
    "SYSTEM"
)
# Types that take a cell with more digits, rounded.
_ROUNDED = keywords(
    "DECIMAL DEC NUMERIC FIXED NUMBER FLOAT FLOAT4 FLOAT8 DOUBLE REAL DATE TIME DATETIME TIMESTAMP "
    "YEAR"
)
# Types that take a cell with digits after the point, rounded.
_WHOLE = keywords(
    "TINYINT SMALLINT MEDIUMINT MIDDLEINT INT INTEGER BIGINT INT1 INT2 INT3 INT4 INT8 BOOL BOOLEAN "
    "BIT"
)
# In the definition of a column: it has a value in rows that are there already.
_VALUES = keywords("AUTO_INCREMENT AS GENERATED SERIAL")
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
        return _NameReader(tokens(text, session), schema, session).names()
    except (UnicodeDecodeError, NoTokens, NotUnderstood):
        return None


@dataclass(frozen=True, slots=True)
class Unlogged:
    """What a statement does to rows without a row event or a TRUNCATE in the binlog. `replaced`:
    tables that have another table's rows afterwards, or none, or are gone; `schemas`: schemas that
    are dropped with all their tables; `trimmed`: tables that lose rows, as of partitions;
    `refilled`: tables whose rows have other cells afterwards; `retyped`: tables whose rows have
    some if a column's type or character set holds less than its former one, which the statement
    does not show; `whole`: in other tables, columns, in lower case, that are of whole numbers
    afterwards, if they were not before."""

    replaced: frozenset[TableId] = frozenset()
    schemas: frozenset[str] = frozenset()
    trimmed: frozenset[TableId] = frozenset()
    refilled: frozenset[TableId] = frozenset()
    retyped: frozenset[TableId] = frozenset()
    whole: frozenset[tuple[TableId, str]] = frozenset()


def unlogged(sql: bytes, schema: str, session: Session = PLAIN) -> Unlogged | None:
    """What a statement does to rows without a word in the binlog but its own; `schema` is the
    session's. None if it is not understood."""
    try:
        text = sql.decode(session.encoding)
        return _NameReader(tokens(text, session), schema, session).unlogged()
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

    def unlogged(self) -> Unlogged:
        verb = self.verb()
        if verb not in ("ALTER", "CREATE", "DROP", "RENAME"):
            return Unlogged()
        self.take()
        if verb == "RENAME":
            found: list[TableId] = []
            for change in self.renamings():
                found += change.table, change.to
            return Unlogged(frozenset(found))
        # A table or schema that is created otherwise was not there before.
        if not self.skip("OR", "REPLACE") and verb == "CREATE":
            return Unlogged()
        if verb != "ALTER" and self.skip_one_of("DATABASE", "SCHEMA"):
            self.skip_one_of("IF NOT EXISTS", "IF EXISTS")
            return Unlogged(schemas=frozenset((self.name(),)))
        self.skip("ONLINE")
        is_ignore = verb == "ALTER" and self.skip("IGNORE")  # MariaDB's
        self.skip_all_of(_MODIFIERS)
        if not self.skip_one_of("TABLE", "TABLES"):
            return Unlogged()
        self.skip_one_of("IF NOT EXISTS", "IF EXISTS")
        tables = [self.table()]
        if verb == "ALTER":
            return self._altered_rows(tables[0], is_ignore=is_ignore)
        while verb == "DROP" and self.skip(","):
            tables.append(self.table())
        return Unlogged(frozenset(tables))

    def _altered_rows(self, table: TableId, *, is_ignore: bool) -> Unlogged:
        self.skip_wait()
        replaced: set[TableId] = set()
        trimmed: set[TableId] = set()
        parts = split_at_commas(self.rest())
        if is_ignore and any(map(_is_unique, parts)):
            trimmed.add(table)
        for part in parts:
            if is_rename(part):
                replaced |= {table, self._new_name(part)}
            elif other := self._other(part):
                replaced |= {table, other}
            elif TokenReader(part).skip_one_of("DISCARD", "IMPORT"):
                replaced.add(table)
            elif TokenReader(part).skip_one_of("DROP PARTITION", "TRUNCATE PARTITION"):
                trimmed.add(table)
        refilled = frozenset({table} if _changes_cells(parts) else ())
        retyped: set[TableId] = set()
        whole: set[tuple[TableId, str]] = set()
        if not refilled:
            # IGNORE goes before strict mode.
            is_strict = bool(self._session.sql_mode & STRICT) and not is_ignore
            if not is_strict and any(TokenReader(part).comes("CONVERT", "TO") for part in parts):
                retyped.add(table)  # `?` for each character that the new set lacks
            for column, kind in filter(None, map(_new_type, parts)):
                if not is_strict or kind in _ROUNDED:
                    retyped.add(table)
                elif kind in _WHOLE:
                    whole.add((table, column))
        if retyped:
            whole.clear()
        return Unlogged(
            frozenset(replaced),
            frozenset(),
            frozenset(trimmed),
            refilled,
            frozenset(retyped),
            frozenset(whole),
        )

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
                return Named(kind, self._new_name(part), table)
        other = self._other(parts[0])
        return Named(kind, table, other=other, is_import=_is_import(parts[0]))

    def _new_name(self, rename: Sequence[Token]) -> TableId:
        return StatementReader(rename[1:], self._schema, self._session).new_name()

    def _other(self, action: Sequence[Token]) -> TableId | None:
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


def _is_unique(action: Sequence[Token]) -> bool:
    """Whether it adds a key that ALTER IGNORE makes unique by deleting rows."""
    reader = TokenReader(action)
    if not reader.skip("ADD"):
        return False
    if reader.skip("CONSTRAINT") and not reader.skip_one_of("UNIQUE", "PRIMARY"):
        reader.name()
    return reader.skip_one_of("UNIQUE", "PRIMARY")


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


def _changes_cells(actions: Sequence[Sequence[Token]]) -> bool:
    """Whether rows that are there already get a value in an added column, the cells of another one
    under a name, or those of an expression, which may be a new one. Other types do not count:
    values stay, as far as a type holds them."""
    added: set[str] = set()
    dropped: set[str] = set()
    for action in actions:
        reader = TokenReader(action)
        if reader.skip("RENAME", "COLUMN"):
            return True
        if reader.skip("CHANGE"):
            if _column(reader) != _column(reader) or _is_generated(reader):
                return True
        elif reader.skip("MODIFY"):
            _column(reader)
            if _is_generated(reader):
                return True
        elif reader.skip("DROP") and reader.word() not in _NO_COLUMNS:
            dropped.add(_column(reader))
        elif reader.skip("ADD") and reader.word() not in _NO_COLUMNS:
            reader.skip("COLUMN")
            reader.skip("IF", "NOT", "EXISTS")
            definitions = [reader.rest()]
            if not definitions[0]:
                raise NotUnderstood
            if definitions[0][0].text == "(":
                definitions = split_at_commas(definitions[0][1:-1])
            for definition in definitions:
                of_one = TokenReader(definition)
                added.add(_column(of_one))
                if _has_value(of_one):
                    return True
    return bool(added & dropped)


def _new_type(action: Sequence[Token]) -> tuple[str, str] | None:
    """The column, in lower case, to which an action gives a type, and that type's first word. By
    such a type the server may round or cut cells without an error; in strict mode it refuses to,
    but for digits."""
    reader = TokenReader(action)
    is_change = reader.skip("CHANGE")
    if not is_change and not reader.skip("MODIFY"):
        return None
    column = _column(reader)
    if is_change:
        _column(reader)
    return column, reader.word()


def _column(reader: TokenReader) -> str:
    reader.skip("COLUMN")
    reader.skip("IF", "EXISTS")
    return reader.column_name().lower()


def _is_generated(definition: TokenReader) -> bool:
    """Whether the cells of a column of this definition are those of an expression."""
    while not definition.is_done():
        if definition.skip("AS"):
            return True
        if definition.comes("("):
            definition.parentheses()
        else:
            definition.take()
    return False


def _has_value(definition: TokenReader) -> bool:
    """Whether a column of this definition has a value in rows that are there already."""
    while not definition.is_done():
        if definition.comes("NOT", "NULL") or definition.word() in _VALUES:
            return True
        if definition.skip("DEFAULT") and not definition.comes("NULL"):
            return True
        definition.take()
    return False

"""What a statement does to rows of which the binlog has no row events. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.named_tables import MODIFIERS, NameReader
from cdcbus.producer.ddl.rows.kept_cells import type_in
from cdcbus.producer.ddl.statements import is_rename
from cdcbus.producer.ddl.table_actions import ActionReader
from cdcbus.producer.ddl.table_schema import ChangeColumn
from cdcbus.producer.ddl.token_reader import NotUnderstood, TokenReader, keywords, split_at_commas
from cdcbus.producer.ddl.tokens import (
    PAD_CHAR_TO_FULL_LENGTH,
    PLAIN,
    STRICT,
    NoTokens,
    Session,
    Token,
    tokens,
)

# What ADD and DROP concern besides columns.
_NO_COLUMNS = keywords(
    "INDEX KEY UNIQUE PRIMARY FULLTEXT SPATIAL VECTOR FOREIGN CONSTRAINT CHECK PARTITION PERIOD "
    "SYSTEM"
)
# In the definition of a column: it has a value in rows that are there already.
_VALUES = keywords("AUTO_INCREMENT AS GENERATED SERIAL PRIMARY")
_NUMBERED = keywords("AUTO_INCREMENT SERIAL")
_EXPRESSION = keywords("AS")
# There, too: a word or a name follows, which can look like one of those above.
_WITH_WORD = ("COLUMN_FORMAT", "STORAGE", "AFTER", "REFERENCES", "=")


@dataclass(frozen=True, slots=True)
class Retyped:
    """A column of a table, in lower case, to which a statement gives a type, its former one or
    another: as in information_schema, empty if it is not known. `is_numbered`: it has
    AUTO_INCREMENT afterwards, which gives numbers to rows without one unless it had it before."""

    table: TableId
    column: str
    type: str
    is_numbered: bool = False


@dataclass(frozen=True, slots=True)
class Unlogged:
    """What a statement does to rows without a row event or a TRUNCATE in the binlog. `replaced`:
    tables that have another table's rows afterwards, or none, or are gone; `schemas`: schemas that
    are dropped with all their tables; `trimmed`: tables that lose rows, as of partitions;
    `refilled`: tables whose rows have other cells afterwards; `cut`: tables whose rows may have
    some, as the server cuts, rounds and replaces what a new type or character set does not hold.
    Where it refuses to (strict mode), whether they have some follows from the former types, which
    the statement does not show: `retyped`, and `converted`, tables whose texts get another
    character set, but for labels, whose bytes stay."""

    replaced: frozenset[TableId] = frozenset()
    schemas: frozenset[str] = frozenset()
    trimmed: frozenset[TableId] = frozenset()
    refilled: frozenset[TableId] = frozenset()
    cut: frozenset[TableId] = frozenset()
    retyped: frozenset[Retyped] = frozenset()
    converted: frozenset[TableId] = frozenset()


def unlogged(sql: bytes, schema: str, session: Session = PLAIN) -> Unlogged | None:
    """What a statement does to rows without a word in the binlog but its own; `schema` is the
    session's. None if it is not understood."""
    try:
        text = sql.decode(session.encoding)
        return _RowReader(tokens(text, session), schema, session).unlogged()
    except (UnicodeDecodeError, NoTokens, NotUnderstood):
        return None


class _RowReader(NameReader):
    """Reads a statement as far as rows are concerned."""

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
        self.skip_all_of(MODIFIERS)
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
                replaced |= {table, self.new_name_of(part)}
            elif other := self.other(part):
                replaced |= {table, other}
            elif TokenReader(part).skip_one_of("DISCARD", "IMPORT"):
                replaced.add(table)
            elif _trims(part):
                trimmed.add(table)
        found = Unlogged(frozenset(replaced), trimmed=frozenset(trimmed))
        of_table = frozenset({table})
        if self._changes_cells(parts):
            return replace(found, refilled=of_table)
        retyped = frozenset(filter(None, (self._retyped(table, part) for part in parts)))
        converts = any(TokenReader(part).comes("CONVERT", "TO") for part in parts)
        # IGNORE goes before strict mode. With the other mode, a CHAR gets its blanks.
        is_strict = bool(self._session.sql_mode & STRICT) and not is_ignore
        if is_strict and not self._session.has(PAD_CHAR_TO_FULL_LENGTH):
            converted = of_table if converts else frozenset()
            return replace(found, retyped=retyped, converted=converted)
        # A column of the primary key that was nullable gets a value.
        if retyped or converts or any(map(_primary_key, parts)):
            return replace(found, cut=of_table)
        return found

    def _changes_cells(self, actions: Sequence[Sequence[Token]]) -> bool:
        """Whether rows that are there already get a value in an added column, the cells of another
        one under a name, or those of an expression, which may be a new one; the bytes of texts; or
        the times of MariaDB's SYSTEM VERSIONING. Other types do not count."""
        added: set[str] = set()
        dropped: set[str] = set()
        keyed: set[str] = set()
        for action in actions:
            reader = TokenReader(action)
            if reader.skip("RENAME", "COLUMN"):
                return True
            if reader.skip("CONVERT", "TO"):
                if "binary" in _texts(reader.rest()):
                    return True
            elif reader.skip("CHANGE"):
                if _column(reader) != _column(reader) or _is_generated(reader):
                    return True
            elif reader.skip("MODIFY"):
                _column(reader)
                if _is_generated(reader):
                    return True
            elif reader.skip("DROP") and reader.word() not in _NO_COLUMNS:
                dropped.add(_column(reader))
            elif reader.skip("ADD", "SYSTEM", "VERSIONING"):
                return True
            elif reader.skip("ADD"):
                for definition in _definitions(reader):
                    keyed |= _primary_key(definition)
                    of_one = TokenReader(definition)
                    if of_one.word() in _NO_COLUMNS:
                        continue
                    added.add(_column(of_one))
                    if self._has_value(of_one):
                        return True
        return not added.isdisjoint(dropped | keyed)

    def _has_value(self, definition: TokenReader) -> bool:
        """Whether a column of this definition has a value in rows that are there already."""
        is_nullable = not definition.comes("TIMESTAMP") or bool(self._session.explicit_timestamps)
        while not definition.is_done():
            if definition.comes("NOT", "NULL") or definition.word() in _VALUES:
                return True
            if definition.skip("DEFAULT"):
                if not _is_null(definition):
                    return True
                is_nullable = True
            elif definition.word() == "KEY":  # the primary one
                return True
            elif definition.comes("("):
                definition.parentheses()
            elif definition.skip_one_of(*_WITH_WORD):
                definition.take()
            elif not definition.skip_one_of("UNIQUE KEY", "SET DEFAULT", "SET NULL"):
                is_nullable |= definition.comes("NULL")
                definition.take()
        return not is_nullable

    def _retyped(self, table: TableId, action: Sequence[Token]) -> Retyped | None:
        reader = TokenReader(action)
        is_change = reader.skip("CHANGE")
        if not is_change and not reader.skip("MODIFY"):
            return None
        column = _column(reader)
        if is_change:
            _column(reader)
        return Retyped(table, column, self._type_in(action), _has(reader, _NUMBERED))

    def _type_in(self, action: Sequence[Token]) -> str:
        """The type that an action gives a column; empty if it is not understood, or if NULL may
        become a value by it."""
        try:
            [changed] = ActionReader(action, self._session).alter()
        except NotUnderstood:
            return ""
        if not isinstance(changed, ChangeColumn):
            return ""
        type_ = type_in(changed.text)
        is_time = type_.startswith("timestamp") and self._session.is_mariadb
        if is_time and not changed.text.column.is_nullable:  # NULL becomes the current time
            return ""
        return type_


def _definitions(added: TokenReader) -> list[list[Token]]:
    """What an ADD adds: a column, several in parentheses, or something else."""
    added.skip("COLUMN")
    added.skip("IF", "NOT", "EXISTS")
    definition = added.rest()
    if not definition:
        raise NotUnderstood
    if definition[0].text == "(":
        return split_at_commas(definition[1:-1])
    return [definition]


def _primary_key(definition: Sequence[Token]) -> set[str]:
    """The words of the definition of a primary key, its columns among them, in lower case; empty
    for any other definition, or action of ALTER TABLE."""
    reader = TokenReader(definition)
    reader.skip("ADD")
    if reader.skip("CONSTRAINT") and not reader.comes("PRIMARY"):
        reader.name()
    if not reader.skip("PRIMARY"):
        return set()
    return _texts(reader.rest())


def _texts(some: Sequence[Token]) -> set[str]:
    """Words, names and strings, in lower case."""
    return {token.text.lower() for token in some}


def _trims(action: Sequence[Token]) -> bool:
    """Whether it deletes rows: those of partitions, MariaDB's history, or all."""
    reader = TokenReader(action)
    if reader.skip_one_of("DROP PARTITION", "TRUNCATE PARTITION", "DROP SYSTEM VERSIONING"):
        return True
    while not reader.is_done():
        if reader.skip("ENGINE"):
            reader.skip("=")
            if "blackhole" in _texts(reader.rest()[:1]):
                return True
        else:
            reader.take()
    return False


def _is_unique(action: Sequence[Token]) -> bool:
    """Whether it adds a key that ALTER IGNORE makes unique by deleting rows."""
    reader = TokenReader(action)
    if not reader.skip("ADD"):
        return False
    if reader.skip("CONSTRAINT") and not reader.skip_one_of("UNIQUE", "PRIMARY"):
        reader.name()
    return reader.skip_one_of("UNIQUE", "PRIMARY")


def _column(reader: TokenReader) -> str:
    reader.skip("COLUMN")
    reader.skip("IF", "EXISTS")
    return reader.column_name().lower()


def _is_null(value: TokenReader) -> bool:
    """Whether a default is NULL, in parentheses or not. Passes it then."""
    if not value.comes("("):
        return value.skip("NULL")
    inside = value.parentheses()
    if len(inside) == 1:
        return TokenReader(inside).comes("NULL")
    return bool(inside) and _is_null(TokenReader(inside))


def _is_generated(definition: TokenReader) -> bool:
    """Whether the cells of a column of this definition are those of an expression."""
    return _has(definition, _EXPRESSION)


def _has(definition: TokenReader, words: frozenset[str]) -> bool:
    """Whether one of these words is in a definition, and not in an expression or for a name."""
    while not definition.is_done():
        if definition.word() in words:
            return True
        if definition.comes("("):
            definition.parentheses()
        else:
            definition.skip_one_of(*_WITH_WORD)
            definition.take()
    return False

"""The parts of ALTER TABLE, and of CREATE TABLE's parentheses, as actions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdcbus.producer.ddl.column_definition import ColumnReader
from cdcbus.producer.ddl.table_schema import (
    PRIMARY,
    Action,
    AddColumn,
    AddIndex,
    AddRowTimes,
    AddUnique,
    ChangeColumn,
    DropColumn,
    DropIndex,
    DropRowTimes,
    RenameColumn,
    RenameIndex,
    SetCharset,
    UniqueKey,
)
from cdcbus.producer.ddl.token_reader import NotUnderstood, TokenReader, keywords, split_at_commas
from cdcbus.producer.ddl.tokens import Kind, Token

# Table options and ALTER actions that leave columns and keys unchanged, by their first word.
_OPTIONS = keywords(
    "ENGINE AUTO_INCREMENT COMMENT ROW_FORMAT KEY_BLOCK_SIZE ALGORITHM LOCK AVG_ROW_LENGTH "
    "CHECKSUM TABLE_CHECKSUM DELAY_KEY_WRITE INSERT_METHOD MAX_ROWS MIN_ROWS PACK_KEYS "
    "STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES COMPRESSION ENCRYPTION CONNECTION "
    "PAGE_CHECKSUM TRANSACTIONAL AUTOEXTEND_SIZE ENCRYPTED ENCRYPTION_KEY_ID PAGE_COMPRESSED "
    "PAGE_COMPRESSION_LEVEL ENGINE_ATTRIBUTE SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE "
    "TABLESPACE STORAGE IETF_QUOTES PASSWORD TYPE"
)
_HARMLESS_ACTIONS = keywords(
    "ENABLE DISABLE FORCE WITH WITHOUT ORDER PARTITION REMOVE REORGANIZE COALESCE TRUNCATE "
    "ANALYZE CHECK OPTIMIZE REBUILD REPAIR DISCARD IMPORT NOWAIT WAIT SECONDARY_LOAD "
    "SECONDARY_UNLOAD EXCHANGE"
)
_ROWS_FOLLOW = ("AS", "IGNORE", "REPLACE", "TABLE", "VALUES")
_SPECIAL_INDEXES = ("FULLTEXT", "SPATIAL", "VECTOR")


class ActionReader(ColumnReader):
    """Reads one part of ALTER TABLE or of CREATE TABLE's parentheses."""

    def alter(self) -> list[Action]:
        if self.skip("ADD"):
            return self._add()
        if self.skip("DROP"):
            return [*self._drop()]
        if self.skip("MODIFY"):
            self.skip("COLUMN")
            if_there = self.skip("IF", "EXISTS")
            text = self.column()
            return [ChangeColumn(text.column.name, text, if_there)]
        if self.skip("CHANGE"):
            self.skip("COLUMN")
            if_there = self.skip("IF", "EXISTS")
            name = self.column_name()
            return [ChangeColumn(name, self.column(), if_there)]
        if self.skip("RENAME"):
            return [self._rename()]
        if self.skip("CONVERT", "TO"):
            return [self._convert()]
        if self.skip("ALTER"):
            self._alter_part()
            return []
        if self.word() in _HARMLESS_ACTIONS:
            self.rest()
            return []
        found = self.table_options()
        if AddRowTimes() in found:
            raise NotUnderstood
        return found

    def _add(self) -> list[Action]:
        key = self._key()
        if key is not None:
            return key
        if self.comes("PARTITION"):
            self.rest()
            return []
        if self.skip("SYSTEM", "VERSIONING"):
            self.end()
            return [AddRowTimes()]
        if self.comes("PERIOD", "FOR"):
            raise NotUnderstood  # its columns may be those of another action
        self.skip("COLUMN")
        if_missing = self.skip("IF", "NOT", "EXISTS")
        added = self._added_columns()
        if if_missing:
            return list(map(_if_missing, added))
        return added

    def _added_columns(self) -> list[Action]:
        """Passes a column, or several definitions in parentheses."""
        if not self.comes("("):
            return [AddColumn(self.column())]
        parts = split_at_commas(self.parentheses())
        self.end()
        found: list[Action] = []
        for part in parts:
            found += ActionReader(part, self._session).definition()
        return found

    def _rename(self) -> Action:
        is_column = self.skip("COLUMN")
        if not is_column and not self.skip("INDEX"):
            self.expect("KEY")
        if self.skip("IF", "EXISTS"):
            raise NotUnderstood
        if is_column:
            return RenameColumn(self.column_name(), self._new_name())
        return RenameIndex(self.name(), self._new_name())

    def _new_name(self) -> str:
        self.expect("TO")
        name = self.name()
        self.end()
        return name

    def _convert(self) -> Action:
        charset = self.charset()
        self.end()
        if not charset:
            raise NotUnderstood
        return SetCharset(charset, converts=True)

    def _alter_part(self) -> None:
        """Passes a new default, or the visibility of a column or an index: neither affects rows."""
        self.skip_one_of("COLUMN", "INDEX", "KEY", "CHECK", "CONSTRAINT")
        self.skip("IF", "EXISTS")
        self.column_name()
        if self.word() not in ("SET", "DROP", "INVISIBLE", "VISIBLE", "NOT", "IGNORED", "ENFORCED"):
            raise NotUnderstood
        self.rest()

    def _drop(self) -> tuple[Action, ...]:
        if self.skip("PRIMARY", "KEY"):
            self.end()
            return (DropIndex(PRIMARY),)
        if self.skip("SYSTEM", "VERSIONING"):
            self.end()
            return (DropRowTimes(),)
        if self.comes("PERIOD", "FOR"):
            raise NotUnderstood
        if self.skip_one_of("FOREIGN", "CHECK", "PARTITION"):
            self.rest()
            return ()
        kind = "COLUMN"
        # DROP key, DROP key RESTRICT: a column with the name of a keyword
        names_kind = self.word(1) not in ("", "RESTRICT", "CASCADE")
        if names_kind and self.word() in ("INDEX", "KEY", "CONSTRAINT", "COLUMN"):
            kind = self.take().text.upper()
        if_there = self.skip("IF", "EXISTS")
        name = self.column_name()
        self.skip_one_of("RESTRICT", "CASCADE")
        self.end()
        if kind == "COLUMN":
            return (DropColumn(name, if_there),)
        return (DropIndex(name),)

    def _key(self) -> list[Action] | None:
        """Passes an index or constraint; None if none is next."""
        name = ""
        if self.skip("CONSTRAINT"):
            self.skip("IF", "NOT", "EXISTS")
            if self.word() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
                name = self.name()
        if self.skip("CHECK"):
            self.rest()
            return []
        if self.skip("FOREIGN", "KEY"):
            return [self._index(name)]
        if self._comes_index():
            self.skip_one_of(*_SPECIAL_INDEXES)
            self.skip_one_of("INDEX", "KEY")
            return [self._index()]
        if self.skip("PRIMARY", "KEY"):
            return [self._unique(PRIMARY)]
        if self.skip("UNIQUE"):
            self.skip_one_of("INDEX", "KEY")
            return [self._unique(name)]
        if name:
            raise NotUnderstood
        return None

    def _comes_index(self) -> bool:
        """Whether an index is next; VECTOR and similar words can also name a column."""
        if self.word() in ("INDEX", "KEY"):
            return True
        # a blank: a quoted name
        return self.word() in _SPECIAL_INDEXES and self.word(1) in ("INDEX", "KEY", " ", "(")

    def _index(self, constraint: str = "") -> Action:
        """Passes a non-unique index. Only its possible names matter, as no other index can have
        them."""
        self.skip("IF", "NOT", "EXISTS")
        names = list(filter(None, [constraint]))
        if self.word() not in ("(", "USING", "TYPE"):
            names.append(self.name())
        words = [token.text for token in self.rest() if token.kind in (Kind.WORD, Kind.NAME)]
        # Without a name it gets its first column's.
        return AddIndex(tuple(names or words[:1]))

    def _unique(self, name: str) -> Action:
        if self.skip("IF", "NOT", "EXISTS"):
            raise NotUnderstood
        if self.word() not in ("(", "USING"):
            given = self.name()
            if name != PRIMARY:
                name = given
        if self.skip("USING"):
            self.take()
        unique = unique_key(name, self.parentheses())
        while not self.is_done():
            if self.skip_one_of("USING", "COMMENT", "KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE"):
                self.skip("=")
                self.take()
            elif not self.skip_one_of("VISIBLE", "INVISIBLE", "IGNORED", "NOT IGNORED"):
                raise NotUnderstood
        return unique

    def definition(self) -> list[Action]:
        """Passes a column, index or constraint of CREATE TABLE."""
        key = self._key()
        if key is not None:
            return key
        if self.comes("PERIOD", "FOR"):
            raise NotUnderstood
        return [AddColumn(self.column())]

    def table_options(self, *, is_new: bool = False) -> list[Action]:
        """Passes the options after CREATE TABLE's parentheses, or one of ALTER TABLE's."""
        found: list[Action] = []
        while not self.is_done():
            self.skip(",")
            if self.word() in ("DEFAULT", "CHARSET", "CHARACTER", "CHAR", "COLLATE"):
                self.skip("DEFAULT")
                charset = self.charset()
                if charset:
                    found.append(SetCharset(charset, converts=False))
                elif not is_new:
                    raise NotUnderstood
            elif self.skip("WITH", "SYSTEM", "VERSIONING"):
                found.append(AddRowTimes())
            elif not self._skip_option():
                # also CREATE TABLE ... SELECT: its text does not list the columns
                raise NotUnderstood
        return found

    def _skip_option(self) -> bool:
        """Passes an option that leaves columns and keys unchanged."""
        if self.comes("PARTITION"):
            if _fills(self.rest()):
                raise NotUnderstood
            return True
        if self.skip("START", "TRANSACTION"):
            self.rest()
            return True
        if self.skip_one_of("DATA DIRECTORY", "INDEX DIRECTORY"):
            self.skip("=")
            self.take()
            return True
        if self.skip("UNION"):
            self.skip("=")
            self.parentheses()
            return True
        if self.word() in _OPTIONS:
            self.take()
            self.skip("=")
            self.take()
            return True
        return self.skip_engine_option()


def _fills(partitions: Sequence[Token]) -> bool:
    """Whether the rows of a new table, with columns of their own, follow its partitions."""
    words = [token.text.upper() for token in partitions if token.kind is Kind.WORD]
    if "SELECT" in words:
        return True
    # Within its parentheses, VALUES is a part of a partition's definition.
    outside = TokenReader(partitions)
    while not outside.is_done():
        if outside.word() in _ROWS_FOLLOW:
            return True
        if outside.comes("("):
            outside.parentheses()
        else:
            outside.take()
    return False


def unique_key(name: str, tokens: Sequence[Token]) -> AddUnique:
    """A unique index on the key parts in its parentheses."""
    columns = []
    prefixes = []
    for part in split_at_commas(tokens):
        reader = TokenReader(part)
        if reader.comes("("):  # an expression
            return AddUnique(UniqueKey(name, (), is_whole=False))
        columns.append(reader.name())
        prefix = 0
        if reader.comes("("):
            prefix = reader.number_in_parentheses()
        prefixes.append(prefix)
        reader.skip_one_of("ASC", "DESC")
        reader.end()
    return AddUnique(UniqueKey(name, tuple(columns)), tuple(prefixes))


def _if_missing(action: Action) -> Action:
    if not isinstance(action, AddColumn):
        raise NotUnderstood
    return replace(action, if_missing=True)

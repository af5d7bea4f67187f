"""Parses DDL statements into changes to tables: which tables, and how, as far as the text says.
Pure; never raises.

Only a statement understood to its last word counts as understood: any other gives `actions=None` if
the table is known, `Unread` if it is not. The steps from the text to a change have a file each:
`tokens`, a walk over them (`token_reader`), types, columns, the parts of a table, and here whole
statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_actions import ActionReader, unique_key
from cdcbus.producer.ddl.table_changes import (
    Altered,
    Change,
    Created,
    Dropped,
    Renamed,
    SchemaAltered,
    SchemaDropped,
    Unread,
)
from cdcbus.producer.ddl.table_schema import (
    SEQUENCE_COLUMNS,
    Action,
    AddColumn,
    AddIndex,
    ColumnText,
    DropIndex,
    TableColumn,
)
from cdcbus.producer.ddl.token_reader import NotUnderstood, TokenReader, keywords, split_at_commas
from cdcbus.producer.ddl.tokens import PLAIN, NoTokens, Session, Token, tokens

# Statements, and objects after CREATE, ALTER, DROP and RENAME, that leave tables unchanged.
_HARMLESS = keywords(
    "GRANT REVOKE SET FLUSH ANALYZE OPTIMIZE REPAIR CHECK CALL SAVEPOINT RELEASE ROLLBACK COMMIT "
    "INSTALL UNINSTALL XA CHANGE START STOP RESET PURGE KILL USE LOCK UNLOCK TRUNCATE SHUTDOWN "
    "SIGNAL BEGIN"
)
_OTHER_OBJECTS = keywords(
    "USER ROLE VIEW TRIGGER PROCEDURE FUNCTION EVENT DEFINER SQL ALGORITHM SERVER AGGREGATE "
    "LOGFILE TABLESPACE UNDO RESOURCE PACKAGE SEQUENCE INSTANCE LIBRARY MATERIALIZED"
)
_SCHEMA_OPTIONS = keywords("DEFAULT CHARACTER CHARSET CHAR COLLATE COMMENT ENCRYPTION READ")
# MariaDB's columns of a sequence that do not have the type of its values.
_SEQUENCE_TYPES = {
    "cache_size": "bigint unsigned",
    "cycle_option": "tinyint unsigned",
    "cycle_count": "bigint",
}


def changes(sql: bytes, schema: str, session: Session = PLAIN) -> list[Change]:
    """The changes of a statement, in its order; `schema` is the session's. Empty if it leaves the
    columns and keys of all tables unchanged."""
    try:
        text = sql.decode(session.encoding)
    except UnicodeDecodeError:
        text = sql.decode("ascii", "replace")
        # Then only its names count: `_understood` takes no definitions from it.
        session = replace(session, is_exact=False)
    try:
        found = tokens(text, session)
    except NoTokens:
        # Where a name begins and ends is not known either.
        return [Unread(None)]
    try:
        return StatementReader(found, schema, session).statement()
    except NotUnderstood:
        return [Unread(_words(token.text for token in found))]


def _words(texts: Iterable[str]) -> frozenset[str] | None:
    words = frozenset(texts)
    if "\ufffd" in "".join(words):  # stands for a byte that could not be decoded
        return None
    return words


class StatementReader(TokenReader):
    """Reads a whole statement."""

    def __init__(self, tokens: Sequence[Token], schema: str, session: Session) -> None:
        super().__init__(tokens)
        self._schema = schema
        self._session = session

    def verb(self) -> str:
        """Returns the statement's first word, without passing it."""
        while self.skip("SET", "STATEMENT"):  # MariaDB's prefix
            while not self.skip("FOR"):
                self.take()
        return self.word()

    def statement(self) -> list[Change]:
        verb = self.verb()
        if verb in _HARMLESS or verb == "":
            return []
        self.take()
        heads: dict[str, Callable[[], list[Change]]] = {
            "ALTER": self._alter,
            "CREATE": self._create,
            "DROP": self._drop,
            "RENAME": self._rename,
        }
        if verb not in heads:
            raise NotUnderstood
        return heads[verb]()

    def table(self) -> TableId:
        """Passes a table's name, with its schema or without."""
        if self.skip("."):
            return TableId(self._schema, self.name())
        name = self.name()
        if self.skip("."):
            return TableId(name, self.name())
        return TableId(self._schema, name)

    def skip_wait(self) -> None:
        """Passes MariaDB's limit on waiting for locks."""
        if not self.skip("NOWAIT") and self.skip("WAIT"):
            self.take()

    def renamings(self) -> list[Renamed]:
        """Passes everything after RENAME; returns the renamings."""
        if self.skip("USER"):
            return []
        if not self.skip("TABLE"):
            self.expect("TABLES")
        self.skip("IF", "EXISTS")
        found = [self._renaming()]
        while self.skip(","):
            found.append(self._renaming())
        self.end()
        return found

    def new_name(self) -> TableId:
        """Passes the new name after ALTER TABLE t RENAME."""
        self.skip_one_of("TO", "AS", "=")
        return self.table()

    def _understood(self, read: Callable[[], list[Action]]) -> tuple[Action, ...] | None:
        """The actions, or None if they are not understood."""
        if not self._session.is_exact:
            return None
        try:
            return tuple(read())
        except NotUnderstood:
            return None

    def _alter(self) -> list[Change]:
        self.skip_all_of(("ONLINE", "OFFLINE", "IGNORE"))
        if self.skip("TABLE"):
            return self._alter_table()
        if self.skip_one_of("DATABASE", "SCHEMA"):
            schema = self._schema
            if self.word() not in _SCHEMA_OPTIONS:
                schema = self.name()
            return [SchemaAltered(schema)]
        if self.word() in _OTHER_OBJECTS:
            return []
        raise NotUnderstood

    def _alter_table(self) -> list[Change]:
        self.skip("IF", "EXISTS")
        table = self.table()
        self.skip_wait()
        parts = split_at_commas(self.rest())
        others = [part for part in parts if not is_rename(part)]
        found: list[Change] = []
        actions = self._understood(lambda: self._actions(others))
        # indexes that are not unique change nothing for rows
        if actions is None or not all(isinstance(action, AddIndex) for action in actions):
            found.append(Altered(table, actions))
        for part in parts:
            if is_rename(part):
                reader = StatementReader(part[1:], self._schema, self._session)
                to = reader.new_name()
                reader.end()
                found.append(Renamed(table, to))
        return found

    def _actions(self, parts: Sequence[Sequence[Token]]) -> list[Action]:
        found: list[Action] = []
        for part in parts:
            found += ActionReader(part, self._session).alter()
        return found

    def _create(self) -> list[Change]:
        replaces = self.skip("OR", "REPLACE")
        is_temporary = self.skip("TEMPORARY")
        if self.skip("TABLE"):
            return [self._create_table(is_temporary)]
        if self.skip("SEQUENCE"):
            return [self._create_sequence(is_temporary)]
        if self.skip_one_of("DATABASE", "SCHEMA"):
            self.skip("IF", "NOT", "EXISTS")
            if not replaces:
                return []
            return [SchemaDropped(self.name())]
        is_unique = False
        while self.word() in ("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
            is_unique |= self.take().text.upper() == "UNIQUE"
        if self.skip("INDEX"):
            return self._create_index(is_unique)
        if self.word() in _OTHER_OBJECTS | {"REFERENCE"}:
            return []
        raise NotUnderstood

    def _create_index(self, is_unique: bool) -> list[Change]:
        if_missing = self.skip("IF", "NOT", "EXISTS")
        index = self.name()
        if self.skip("USING"):
            self.take()
        self.expect("ON")
        table = self.table()
        if not is_unique:
            return []
        if if_missing:  # the text does not say whether the index was made
            return [Altered(table, None)]
        return [Altered(table, self._understood(lambda: [unique_key(index, self.parentheses())]))]

    def _create_table(self, is_temporary: bool) -> Change:
        if_missing = self._skip_if_missing()
        table = self.table()
        inside: StatementReader = self
        if self.word(1) == "LIKE":  # CREATE TABLE t (LIKE u)
            inside = StatementReader(self.parentheses(), self._schema, self._session)
        if inside.skip("LIKE"):
            like = inside.table()
            inside.end()
            return Created(table, None, like, if_missing, is_temporary)
        return Created(table, self._understood(self._definition), None, if_missing, is_temporary)

    def _skip_if_missing(self) -> bool:
        """Passes IF NOT EXISTS. Returns whether it leaves open that something was created."""
        return self.skip("IF", "NOT", "EXISTS") and not self._session.is_change

    def _create_sequence(self, is_temporary: bool) -> Change:
        """A sequence is a table of one row in the binlog."""
        if_missing = self._skip_if_missing()
        sequence = self.table()
        type_ = "bigint"
        if self.skip("AS"):
            type_, _ = ActionReader(self.rest(), self._session).type_()
        actions = []
        for name in SEQUENCE_COLUMNS:
            column_type = _SEQUENCE_TYPES.get(name, type_)
            column = TableColumn(name, column_type, "", is_nullable=False)
            actions.append(AddColumn(ColumnText(column, None)))
        return Created(sequence, tuple(actions), None, if_missing, is_temporary)

    def _definition(self) -> list[Action]:
        found: list[Action] = []
        for part in split_at_commas(self.parentheses()):
            found += ActionReader(part, self._session).definition()
        options = ActionReader(self.rest(), self._session)
        found += options.table_options(is_new=True)
        return found

    def _drop(self) -> list[Change]:
        is_temporary = self.skip("TEMPORARY")
        if self.skip_one_of("TABLE", "TABLES", "SEQUENCE"):
            self.skip("IF", "EXISTS")
            found: list[Change] = [Dropped(self.table(), is_temporary)]
            while self.skip(","):
                found.append(Dropped(self.table(), is_temporary))
            self.skip_one_of("RESTRICT", "CASCADE")
            self.skip_wait()
            self.end()
            return found
        if self.skip_one_of("DATABASE", "SCHEMA"):
            self.skip("IF", "EXISTS")
            return [SchemaDropped(self.name())]
        self.skip_all_of(("ONLINE", "OFFLINE"))
        if self.skip("INDEX"):
            self.skip("IF", "EXISTS")
            index = self.name()
            self.expect("ON")
            return [Altered(self.table(), (DropIndex(index),))]
        if self.word() in _OTHER_OBJECTS | {"PREPARE", "SPATIAL"}:
            return []
        raise NotUnderstood

    def _rename(self) -> list[Change]:
        return [*self.renamings()]

    def _renaming(self) -> Renamed:
        table = self.table()
        self.skip_wait()
        self.expect("TO")
        return Renamed(table, self.table())


def is_rename(part: Sequence[Token]) -> bool:
    """Whether a part is RENAME [TO|AS|=] table, not RENAME COLUMN, INDEX or KEY."""
    reader = TokenReader(part)
    return reader.skip("RENAME") and reader.word() not in ("COLUMN", "INDEX", "KEY")

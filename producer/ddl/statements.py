"""DDL statements to what they change about tables: which tables, and how, as far as the text says
it. Pure; never raises.

Only what is understood to its last word counts as understood: anything else is `actions=None` where
the table is known, `Unread` where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import (
    FIRST,
    PRIMARY,
    SEQUENCE_COLUMNS,
    Action,
    AddColumn,
    AddIndex,
    AddRowTimes,
    AddUnique,
    ChangeColumn,
    ColumnText,
    DropColumn,
    DropIndex,
    DropRowTimes,
    RenameColumn,
    RenameIndex,
    SetCharset,
    TableColumn,
    UniqueKey,
)
from cdcbus.producer.ddl.tokens import (
    MAXDB,
    ORACLE,
    PLAIN,
    REAL_AS_FLOAT,
    Kind,
    NoTokens,
    Session,
    Token,
    tokens,
)
from cdcbus.producer.decoding.charsets import stored


@dataclass(frozen=True, slots=True)
class Altered:
    """`actions` is None where the text is not understood."""

    table: TableId
    actions: tuple[Action, ...] | None


@dataclass(frozen=True, slots=True)
class Created:
    """`actions` make the table from nothing; None where they are not understood. `like`: a copy
    of that table. `if_missing`: nothing happens when it is there."""

    table: TableId
    actions: tuple[Action, ...] | None = None
    like: TableId | None = None
    if_missing: bool = False
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    table: TableId
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class Renamed:
    table: TableId
    to: TableId


@dataclass(frozen=True, slots=True)
class SchemaDropped:
    """A schema with all its tables."""

    schema: str


@dataclass(frozen=True, slots=True)
class SchemaAltered:
    """What a schema's later tables inherit."""

    schema: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A statement that may change any table that it names. `words` are all its words; None: not
    even these are known."""

    words: frozenset[str] | None


Change = Altered | Created | Dropped | Renamed | SchemaDropped | SchemaAltered | Unread


def _set(words: str) -> set[str]:
    return set(words.split())


# Statements, and objects after CREATE, ALTER, DROP and RENAME, that leave tables as they are.
_HARMLESS = _set(
    "GRANT REVOKE SET FLUSH ANALYZE OPTIMIZE REPAIR CHECK CALL SAVEPOINT RELEASE ROLLBACK COMMIT "
    "INSTALL UNINSTALL XA CHANGE START STOP"
    " RESET PURGE KILL USE LOCK UNLOCK TRUNCATE SHUTDOWN SIGNAL BEGIN"
)
_OTHER_OBJECTS = _set(
    "USER ROLE VIEW TRIGGER PROCEDURE FUNCTION EVENT DEFINER SQL ALGORITHM SERVER AGGREGATE "
    "LOGFILE TABLESPACE UNDO RESOURCE PACKAGE"
    " SEQUENCE INSTANCE LIBRARY MATERIALIZED"
)


def changes(sql: bytes, schema: str, session: Session = PLAIN) -> list[Change]:
    """What a statement changes, in its order; `schema` is the session's. Empty for what leaves
    all tables' columns and keys as they are."""
    try:
        text = sql.decode("utf-8" if session.is_exact else "ascii")
    except UnicodeDecodeError:
        text, session = sql.decode("ascii", "replace"), replace(session, is_exact=False)
    try:
        found = tokens(text, session)
    except NoTokens:
        return [Unread(_words(re.findall(r"\w+", text)))]
    try:
        return _Statement(found, schema, session).statement()
    except _NotUnderstood:
        return [Unread(_words(token.text for token in found))]


def fills_table(sql: bytes, session: Session) -> bool:
    """Whether this CREATE TABLE takes rows from SELECT, VALUES or TABLE."""
    try:
        found = tokens(sql.decode("utf-8" if session.is_exact else "latin-1"), session)
    except (NoTokens, UnicodeDecodeError):
        return re.search(rb"\b(?:SELECT|VALUES)\b", sql, re.IGNORECASE) is not None
    words = [token.text.upper() if token.kind in (Kind.WORD, Kind.SIGN) else " " for token in found]
    at = words.index("TABLE") + 1 if "TABLE" in words else 0
    return any(
        word in ("SELECT", "TABLE") or (word == "VALUES" and following in ("(", "ROW"))
        for before, word, following in zip(
            words[at:], words[at + 1 :], [*words[at + 2 :], ""], strict=False
        )
        if before != "."
    )


@dataclass(frozen=True, slots=True)
class Named:
    """A table that a statement is about, under the name that it has afterwards. `kind` is
    canal's word for what happens to it; `was`: its name before a RENAME."""

    kind: str
    table: TableId
    was: TableId | None = None
    is_temporary: bool = False


def named(sql: bytes, schema: str, session: Session = PLAIN) -> list[Named] | None:
    """The tables that a statement defines anew, or empties, in its order; `schema` is the
    session's. Empty for what does neither; None where it is not understood."""
    try:
        return _Naming(
            tokens(sql.decode("utf-8" if session.is_exact else "ascii"), session), schema, session
        ).names()
    except (UnicodeDecodeError, NoTokens, _NotUnderstood):
        return None


def folded(change: Change) -> Change:
    """With the names of tables in lower case, for servers that take them in any."""

    def lower(table: TableId) -> TableId:
        return TableId(table.schema.lower(), table.table.lower())

    if isinstance(change, Renamed):
        return Renamed(lower(change.table), lower(change.to))
    if isinstance(change, Created):
        return replace(
            change, table=lower(change.table), like=lower(change.like) if change.like else None
        )
    if isinstance(change, Altered | Dropped):
        return replace(change, table=lower(change.table))
    if isinstance(change, Unread):
        return Unread(change.words and frozenset(word.lower() for word in change.words))
    return replace(change, schema=change.schema.lower())


def _words(texts: Sequence[str] | Iterator[str]) -> frozenset[str] | None:
    words = frozenset(texts)
    return None if any("\ufffd" in word for word in words) else words


class _NotUnderstood(Exception):
    """The text goes on in a way that is not known here."""


class _Reader:
    """A walk over tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        end = len(tokens)
        while end and tokens[end - 1] == Token(Kind.SIGN, ";"):
            end -= 1
        self._tokens, self._at = tokens[:end], 0

    def kind(self) -> Kind | None:
        """Of the token that comes."""
        return self._tokens[self._at].kind if self._at < len(self._tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The keyword, sign or number that comes, in upper case; empty at the end, a blank for
        quoted names and for strings."""
        if self._at + ahead >= len(self._tokens):
            return ""
        token = self._tokens[self._at + ahead]
        return " " if token.kind in (Kind.NAME, Kind.STRING) else token.text.upper()

    def skip(self, *words: str) -> bool:
        """Whether these words come next; if so, they are passed."""
        if any(self.word(i) != word for i, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.skip(*words):
            raise _NotUnderstood

    def take(self) -> Token:
        if self._at >= len(self._tokens):
            raise _NotUnderstood
        self._at += 1
        return self._tokens[self._at - 1]

    def name(self) -> str:
        token = self.take()
        if token.kind not in (Kind.NAME, Kind.WORD):
            raise _NotUnderstood
        return token.text

    def column_name(self) -> str:
        """A column's name, which its table's and its schema's may precede."""
        self.skip(".")
        name = self.name()
        while self.skip("."):
            name = self.name()
        return name

    def number_in_parentheses(self) -> int:
        (token,) = self.parentheses() or (Token(Kind.SIGN, ""),)
        if not token.text.isdecimal():
            raise _NotUnderstood
        return int(token.text)

    def is_done(self) -> bool:
        return self._at >= len(self._tokens)

    def end(self) -> None:
        if not self.is_done():
            raise _NotUnderstood

    def rest(self) -> list[Token]:
        found = list(self._tokens[self._at :])
        self._at = len(self._tokens)
        return found

    def parentheses(self) -> list[Token]:
        """What stands in the parentheses that come."""
        self.expect("(")
        start, depth = self._at, 1
        while depth:
            depth += _depth(self.take())
        return list(self._tokens[start : self._at - 1])


def _depth(token: Token) -> int:
    return {"(": 1, ")": -1}.get(token.text, 0) if token.kind is Kind.SIGN else 0


def _parts(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at the commas that stand in no parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += _depth(token)
        if token.kind is Kind.SIGN and token.text == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


class _Statement(_Reader):
    def __init__(self, tokens: Sequence[Token], schema: str, session: Session) -> None:
        super().__init__(tokens)
        self._schema, self._session = schema, session

    def verb(self) -> str:
        """The statement's first word, which is not passed."""
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
            raise _NotUnderstood
        return heads[verb]()

    def _table(self) -> TableId:
        if self.skip("."):
            return TableId(self._schema, self.name())
        name = self.name()
        return TableId(name, self.name()) if self.skip(".") else TableId(self._schema, name)

    def _wait(self) -> None:
        """MariaDB's limit on waiting for locks."""
        if not self.skip("NOWAIT") and self.skip("WAIT"):
            self.take()

    def _understood(self, read: Callable[[], list[Action]]) -> tuple[Action, ...] | None:
        """The actions, or None where they are not understood."""
        if not self._session.is_exact:
            return None
        try:
            return tuple(read())
        except _NotUnderstood:
            return None

    def _alter(self) -> list[Change]:
        while self.word() in ("ONLINE", "OFFLINE", "IGNORE"):
            self.take()
        if not self.skip("TABLE"):
            if self.skip("DATABASE") or self.skip("SCHEMA"):
                is_named = self.word() not in (
                    "DEFAULT",
                    "CHARACTER",
                    "CHARSET",
                    "CHAR",
                    "COLLATE",
                    "COMMENT",
                    "ENCRYPTION",
                    "READ",
                )
                return [SchemaAltered(self.name() if is_named else self._schema)]
            if self.word() in _OTHER_OBJECTS:
                return []
            raise _NotUnderstood
        self.skip("IF", "EXISTS")
        table = self._table()
        self._wait()
        parts = _parts(self.rest())
        renames = [part for part in parts if _is_rename(part)]
        found: list[Change] = []
        actions = self._understood(
            lambda: [
                action
                for part in parts
                if not _is_rename(part)
                for action in self._alter_actions(part)
            ]
        )
        if actions is None or not all(isinstance(action, AddIndex) for action in actions):
            found.append(Altered(table, actions))
        for part in renames:
            reader = _Statement(part, self._schema, self._session)
            reader.take()
            reader.skip("TO") or reader.skip("AS") or reader.skip("=")
            to = reader._table()
            reader.end()
            found.append(Renamed(table, to))
        return found

    def _alter_actions(self, part: Sequence[Token]) -> list[Action]:
        return _Action(part, self._session).alter()

    def _create(self) -> list[Change]:
        replaces = self.skip("OR", "REPLACE")
        is_temporary = self.skip("TEMPORARY")
        if self.skip("TABLE"):
            return self._create_table(is_temporary)
        if self.skip("SEQUENCE"):
            return self._create_sequence(is_temporary)
        if self.word() in ("DATABASE", "SCHEMA"):
            self.take()
            self.skip("IF", "NOT", "EXISTS")
            return [SchemaDropped(self.name())] if replaces else []
        is_unique = False
        while self.word() in ("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
            is_unique |= self.take().text.upper() == "UNIQUE"
        if self.skip("INDEX"):
            return self._create_index(is_unique)
        if self.word() in _OTHER_OBJECTS | {"REFERENCE"}:
            return []
        raise _NotUnderstood

    def _create_index(self, is_unique: bool) -> list[Change]:
        if_missing = self.skip("IF", "NOT", "EXISTS")
        index = self.name()
        if self.skip("USING"):
            self.take()
        self.expect("ON")
        table = self._table()
        if not is_unique:
            return []
        return [
            Altered(
                table,
                None if if_missing else self._understood(lambda: [self._created_unique(index)]),
            )
        ]

    def _created_unique(self, index: str) -> Action:
        return AddUnique(*_unique(index, self.parentheses()))

    def _create_table(self, is_temporary: bool) -> list[Change]:
        if_missing = self.skip("IF", "NOT", "EXISTS") and not self._session.is_change
        table = self._table()
        inside = (
            _Statement(self.parentheses(), self._schema, self._session)
            if self.word(1) == "LIKE"
            else self
        )
        if inside.skip("LIKE"):
            like = inside._table()
            inside.end()
            return [Created(table, None, like, if_missing, is_temporary)]
        return [Created(table, self._understood(self._definition), None, if_missing, is_temporary)]

    def _create_sequence(self, is_temporary: bool) -> list[Change]:
        """Which is a table of one row in the binlog."""
        if_missing = self.skip("IF", "NOT", "EXISTS") and not self._session.is_change
        sequence = self._table()
        type_ = (
            _Action(self._tokens[self._at + 1 :], self._session)._type()[0]
            if self.word() == "AS"
            else "bigint"
        )
        own = {
            "cache_size": "bigint unsigned",
            "cycle_option": "tinyint unsigned",
            "cycle_count": "bigint",
        }
        columns = (
            TableColumn(name, own.get(name, type_), "", is_nullable=False)
            for name in SEQUENCE_COLUMNS
        )
        return [
            Created(
                sequence,
                tuple(AddColumn(ColumnText(column, None)) for column in columns),
                None,
                if_missing,
                is_temporary,
            )
        ]

    def _definition(self) -> list[Action]:
        found: list[Action] = []
        for part in _parts(self.parentheses()):
            found += _Action(part, self._session).definition()
        options = _Action(self.rest(), self._session)
        found += options.table_options(is_new=True)
        return found

    def _drop(self) -> list[Change]:
        is_temporary = self.skip("TEMPORARY")
        if self.skip("TABLE") or self.skip("TABLES") or self.skip("SEQUENCE"):
            self.skip("IF", "EXISTS")
            found: list[Change] = [Dropped(self._table(), is_temporary)]
            while self.skip(","):
                found.append(Dropped(self._table(), is_temporary))
            self.skip("RESTRICT") or self.skip("CASCADE")
            self._wait()
            self.end()
            return found
        if self.skip("DATABASE") or self.skip("SCHEMA"):
            self.skip("IF", "EXISTS")
            return [SchemaDropped(self.name())]
        while self.word() in ("ONLINE", "OFFLINE"):
            self.take()
        if self.skip("INDEX"):
            self.skip("IF", "EXISTS")
            index = self.name()
            self.expect("ON")
            return [Altered(self._table(), (DropIndex(index),))]
        if self.word() in _OTHER_OBJECTS | {"PREPARE", "SPATIAL"}:
            return []
        raise _NotUnderstood

    def _rename(self) -> list[Change]:
        if self.skip("USER"):
            return []
        if not self.skip("TABLE"):
            self.expect("TABLES")
        self.skip("IF", "EXISTS")
        found: list[Change] = []
        while True:
            table = self._table()
            self._wait()
            self.expect("TO")
            found.append(Renamed(table, self._table()))
            if not self.skip(","):
                break
        self.end()
        return found


class _Naming(_Statement):
    """Only as far as the names of tables go."""

    def names(self) -> list[Named]:
        verb = self.verb()
        if verb not in ("ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE"):
            return []
        self.take()
        if verb == "RENAME":
            return [
                Named("RENAME", change.to, change.table)
                for change in self._rename()
                if isinstance(change, Renamed)
            ]
        if verb == "TRUNCATE":
            return self._truncated()
        self.skip("OR", "REPLACE")
        is_temporary = self.skip("TEMPORARY")
        while self.word() in (
            "ONLINE",
            "OFFLINE",
            "IGNORE",
            "UNIQUE",
            "FULLTEXT",
            "SPATIAL",
            "VECTOR",
        ):
            self.take()
        if self.skip("TABLE") or self.skip("TABLES"):
            self.skip("IF", "NOT", "EXISTS") or self.skip("IF", "EXISTS")
            tables = [self._table()]
            if verb == "ALTER":
                return self._altered(tables[0])
            while verb == "DROP" and self.skip(","):
                tables.append(self._table())
            return [
                Named("CREATE" if verb == "CREATE" else "ERASE", table, None, is_temporary)
                for table in tables
            ]
        return (
            self._indexed("CINDEX" if verb == "CREATE" else "DINDEX") if self.skip("INDEX") else []
        )

    def _truncated(self) -> list[Named]:
        self.skip("TABLE")
        table = self._table()
        self._wait()
        self.end()
        return [Named("TRUNCATE", table)]

    def _altered(self, table: TableId) -> list[Named]:
        """By its first action, as canal does."""
        self._wait()
        first = _parts(self.rest())[0]
        if _is_rename(first):
            to = _Statement(first[1:], self._schema, self._session)
            to.skip("TO") or to.skip("AS") or to.skip("=")
            return [Named("RENAME", to._table(), table)]
        reader = _Reader(first)
        kind = "CINDEX" if reader.skip("ADD") else "DINDEX" if reader.skip("DROP") else "ALTER"
        reader.skip("UNIQUE") or reader.skip("FULLTEXT") or reader.skip("SPATIAL")
        return [Named(kind if reader.word() in ("INDEX", "KEY") else "ALTER", table)]

    def _indexed(self, kind: str) -> list[Named]:
        self.skip("IF", "NOT", "EXISTS") or self.skip("IF", "EXISTS")
        self.name()
        if self.skip("USING"):
            self.take()
        self.expect("ON")
        return [Named(kind, self._table())]


def _is_rename(part: Sequence[Token]) -> bool:
    """RENAME [TO|AS|=] table, not RENAME COLUMN, INDEX or KEY."""
    reader = _Reader(part)
    return reader.skip("RENAME") and reader.word() not in ("COLUMN", "INDEX", "KEY")


def _unique(name: str, tokens: Sequence[Token]) -> tuple[UniqueKey, tuple[int, ...]]:
    """The key, and how much of each column is in it; 0: all."""
    columns, prefixes = [], []
    for part in _parts(tokens):
        reader = _Reader(part)
        if reader.word() == "(":
            return UniqueKey(name, (), is_whole=False), ()  # an expression
        columns.append(reader.name())
        prefixes.append(reader.number_in_parentheses() if reader.word() == "(" else 0)
        reader.skip("ASC") or reader.skip("DESC")
        reader.end()
    return UniqueKey(name, tuple(columns)), tuple(prefixes)


# What may follow a column's type and says nothing of its values' form: words, and how many names or
# values follow each.
_ATTRIBUTES = {
    ("COMMENT",): 1,
    ("VIRTUAL",): 0,
    ("STORED",): 0,
    ("PERSISTENT",): 0,
    ("INVISIBLE",): 0,
    ("VISIBLE",): 0,
    ("SRID",): 1,
    ("REF_SYSTEM_ID",): 1,
    ("COLUMN_FORMAT",): 1,
    ("STORAGE",): 1,
    ("ENGINE_ATTRIBUTE",): 1,
    ("SECONDARY_ENGINE_ATTRIBUTE",): 1,
    ("NOT", "SECONDARY"): 0,
    ("NOT", "ENFORCED"): 0,
    ("ENFORCED",): 0,
    ("WITH", "SYSTEM", "VERSIONING"): 0,
    ("WITHOUT", "SYSTEM", "VERSIONING"): 0,
}
# Table options and ALTER actions that leave columns and keys as they are, by their first word.
_OPTIONS = _set(
    "ENGINE AUTO_INCREMENT COMMENT ROW_FORMAT KEY_BLOCK_SIZE ALGORITHM LOCK AVG_ROW_LENGTH "
    "CHECKSUM TABLE_CHECKSUM DELAY_KEY_WRITE"
    " INSERT_METHOD MAX_ROWS MIN_ROWS PACK_KEYS STATS_AUTO_RECALC STATS_PERSISTENT "
    "STATS_SAMPLE_PAGES COMPRESSION ENCRYPTION CONNECTION"
    " PAGE_CHECKSUM TRANSACTIONAL AUTOEXTEND_SIZE ENCRYPTED ENCRYPTION_KEY_ID PAGE_COMPRESSED "
    "PAGE_COMPRESSION_LEVEL ENGINE_ATTRIBUTE"
    " SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE TABLESPACE STORAGE IETF_QUOTES PASSWORD TYPE"
)
_HARMLESS_ACTIONS = _set(
    "ENABLE DISABLE FORCE WITH WITHOUT ORDER PARTITION REMOVE REORGANIZE COALESCE TRUNCATE "
    "ANALYZE CHECK OPTIMIZE REBUILD REPAIR DISCARD"
    " IMPORT NOWAIT WAIT SECONDARY_LOAD SECONDARY_UNLOAD EXCHANGE"
)
_GEOMETRIES = (
    "geometry point linestring polygon multipoint multilinestring multipolygon "
    "geometrycollection geomcollection"
)
_TYPES = {
    **{
        name: name
        for name in _set(
            "tinyint smallint mediumint int bigint float double decimal bit year date time "
            "datetime timestamp"
        )
    },
    **{
        name: name
        for name in _set("char binary varchar varbinary enum set json uuid inet4 inet6 vector")
    },
    **{
        prefix + kind: prefix + kind
        for prefix in ("tiny", "", "medium", "long")
        for kind in ("text", "blob")
    },
    **{name: name for name in _set(_GEOMETRIES)},
    "integer": "int",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "int4": "int",
    "int8": "bigint",
    "middleint": "mediumint",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "real": "double",
    "float4": "float",
    "float8": "double",
    "character": "char",
    "varcharacter": "varchar",
    "bool": "tinyint",
    "boolean": "tinyint",
    "serial": "bigint unsigned",
}
# What MariaDB's sql_mode ORACLE makes of types.
_ORACLE_TYPES = {
    "varchar2": "varchar",
    "raw": "varbinary",
    "clob": "longtext",
    "blob": "longblob",
    "date": "datetime",
    "number": "decimal",
}
_CHARSET_WORDS = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}


class _Action(_Reader):
    """One part of ALTER TABLE or of CREATE TABLE's parentheses."""

    def __init__(self, tokens: Sequence[Token], session: Session) -> None:
        super().__init__(tokens)
        self._session = session

    def alter(self) -> list[Action]:
        if self.skip("ADD"):
            if (key := self._key()) is not None:
                return key
            if self.word() == "PARTITION":
                self.rest()
                return []
            if self.skip("SYSTEM", "VERSIONING"):
                self.end()
                return [AddRowTimes()]
            if (self.word(), self.word(1)) == ("PERIOD", "FOR"):
                raise _NotUnderstood  # its columns may be those of another action
            self.skip("COLUMN")
            if_missing = self._skip_if("NOT", "EXISTS")
            if self.word() == "(":
                inside = [_Action(part, self._session) for part in _parts(self.parentheses())]
                self.end()
                found = [action for part in inside for action in part.definition()]
                return [_if_missing(action) for action in found] if if_missing else found
            return [_if_missing(action) if if_missing else action for action in self._add_column()]
        if self.skip("DROP"):
            return self._drop()
        if self.skip("MODIFY"):
            self.skip("COLUMN")
            if_there = self._skip_if("EXISTS")
            text = self._column()
            return [ChangeColumn(text.column.name, text, if_there)]
        if self.skip("CHANGE"):
            self.skip("COLUMN")
            if_there = self._skip_if("EXISTS")
            name = self.column_name()
            return [ChangeColumn(name, self._column(), if_there)]
        if self.skip("RENAME"):
            return self._rename()
        if self.skip("CONVERT", "TO"):
            charset = self._charset()
            self.end()
            if not charset:
                raise _NotUnderstood
            return [SetCharset(charset, converts=True)]
        if self.skip("ALTER"):
            return self._alter_part()
        if self.word() in _HARMLESS_ACTIONS:
            self.rest()
            return []
        found = self.table_options()
        if AddRowTimes() in found:
            raise _NotUnderstood
        return found

    def _skip_if(self, *words: str) -> bool:
        return self.skip("IF", *words)

    def _rename(self) -> list[Action]:
        is_column = self.skip("COLUMN")
        if not is_column and not self.skip("INDEX"):
            self.expect("KEY")
        if self._skip_if("EXISTS"):
            raise _NotUnderstood
        name = self.column_name() if is_column else self.name()
        self.expect("TO")
        to = self.name()
        self.end()
        return [RenameColumn(name, to)] if is_column else [RenameIndex(name, to)]

    def _alter_part(self) -> list[Action]:
        """A default, or the visibility of a column or an index: nothing that rows show."""
        self.skip("COLUMN") or self.skip("INDEX") or self.skip("KEY") or self.skip(
            "CHECK"
        ) or self.skip("CONSTRAINT")
        self._skip_if("EXISTS")
        self.column_name()
        if self.word() not in ("SET", "DROP", "INVISIBLE", "VISIBLE", "NOT", "IGNORED", "ENFORCED"):
            raise _NotUnderstood
        self.rest()
        return []

    def _drop(self) -> list[Action]:
        if self.skip("PRIMARY", "KEY"):
            self.end()
            return [DropIndex(PRIMARY)]
        if self.skip("SYSTEM", "VERSIONING"):
            self.end()
            return [DropRowTimes()]
        if (self.word(), self.word(1)) == ("PERIOD", "FOR"):
            raise _NotUnderstood
        if self.skip("FOREIGN") or self.skip("CHECK") or self.skip("PARTITION"):
            self.rest()
            return []
        kind = (
            self.word()
            if self.word() in ("INDEX", "KEY", "CONSTRAINT", "COLUMN")
            and self.word(1) not in ("", "RESTRICT", "CASCADE")
            else ""
        )
        if kind:
            self.take()
        if_there = self._skip_if("EXISTS")
        name = self.column_name()
        self.skip("RESTRICT") or self.skip("CASCADE")
        self.end()
        return [DropColumn(name, if_there)] if kind in ("", "COLUMN") else [DropIndex(name)]

    def _key(self) -> list[Action] | None:
        """An index or constraint; None where none comes."""
        name = ""
        if self.skip("CONSTRAINT"):
            self._skip_if("NOT", "EXISTS")
            if self.word() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
                name = self.name()
        if self.skip("CHECK"):
            self.rest()
            return []
        if self.skip("FOREIGN", "KEY"):
            return [self._index(name)]
        if self.word() in ("INDEX", "KEY") or (
            self.word() in ("FULLTEXT", "SPATIAL", "VECTOR")
            and self.word(1) in ("INDEX", "KEY", " ", "(")
        ):
            self.skip("FULLTEXT") or self.skip("SPATIAL") or self.skip("VECTOR")
            self.skip("INDEX") or self.skip("KEY")
            return [self._index()]
        if self.skip("PRIMARY", "KEY"):
            return [self._unique(PRIMARY)]
        if self.skip("UNIQUE"):
            self.skip("INDEX") or self.skip("KEY")
            return [self._unique(name)]
        if name:
            raise _NotUnderstood
        return None

    def _index(self, constraint: str = "") -> Action:
        """One that is not unique: only the names matter that it may have, as no other index has
        them then."""
        self._skip_if("NOT", "EXISTS")
        names = [constraint] * bool(constraint)
        if self.word() not in ("(", "USING", "TYPE"):
            names.append(self.name())
        names += [token.text for token in self.rest() if token.kind in (Kind.WORD, Kind.NAME)][
            : not names
        ]
        return AddIndex(tuple(names))

    def _unique(self, name: str) -> Action:
        if self._skip_if("NOT", "EXISTS"):
            raise _NotUnderstood
        if self.word() not in ("(", "USING"):
            given = self.name()
            name = name if name == PRIMARY else given
        if self.skip("USING"):
            self.take()
        unique = AddUnique(*_unique(name, self.parentheses()))
        while not self.is_done():
            if (
                self.skip("USING")
                or self.skip("COMMENT")
                or self.skip("KEY_BLOCK_SIZE")
                or self.skip("ENGINE_ATTRIBUTE")
            ):
                self.skip("=")
                self.take()
            elif not (
                self.skip("VISIBLE")
                or self.skip("INVISIBLE")
                or self.skip("IGNORED")
                or self.skip("NOT", "IGNORED")
            ):
                raise _NotUnderstood
        return unique

    def _add_column(self) -> list[Action]:
        return [AddColumn(self._column())]

    def definition(self) -> list[Action]:
        """A column, index or constraint of CREATE TABLE."""
        key = self._key()
        if key is None and (self.word(), self.word(1)) == ("PERIOD", "FOR"):
            raise _NotUnderstood
        return self._add_column() if key is None else key

    def table_options(self, *, is_new: bool = False) -> list[Action]:
        """CREATE TABLE's after its parentheses, or one of ALTER TABLE's."""
        found: list[Action] = []
        while not self.is_done():
            self.skip(",")
            if self.word() == "PARTITION" or self.skip("START", "TRANSACTION"):
                self.rest()
            elif self.skip("WITH", "SYSTEM", "VERSIONING"):
                found.append(AddRowTimes())
            elif self.skip("DATA", "DIRECTORY") or self.skip("INDEX", "DIRECTORY"):
                self.skip("=")
                self.take()
            elif self.skip("UNION"):
                self.skip("=")
                self.parentheses()
            elif self.word() in ("DEFAULT", "CHARSET", "CHARACTER", "CHAR", "COLLATE"):
                self.skip("DEFAULT")
                charset = self._charset()
                if charset:
                    found.append(SetCharset(charset, converts=False))
                elif not is_new:
                    raise _NotUnderstood
            elif self.word() in _OPTIONS:
                self.take()
                self.skip("=")
                self.take()
            elif (
                self._session.is_mariadb
                and self.kind() in (Kind.WORD, Kind.NAME)
                and self.word(1) == "="
            ):
                self.take()  # an engine's own
                self.take()
                self.take()
            else:
                # also CREATE TABLE ... SELECT, whose columns the text does not tell
                raise _NotUnderstood
        return found

    def _charset(self) -> str:
        """CHARACTER SET x [COLLATE y], or COLLATE y alone."""
        charset = ""
        if self._skip_charset():
            self.skip("=")
            charset = self._charset_name()
        if self.skip("COLLATE"):
            self.skip("=")
            of_collation = self._charset_of(self._charset_name())
            charset = charset or of_collation
        return charset

    def _skip_charset(self) -> bool:
        return self.skip("CHARSET") or self.skip("CHARACTER", "SET") or self.skip("CHAR", "SET")

    def _charset_name(self) -> str:
        token = self.take()
        if token.kind is Kind.SIGN or token.text.lower() == "default":
            raise _NotUnderstood
        return token.text.lower()

    def _charset_of(self, collation: str) -> str:
        """Empty for a collation of MariaDB's that any character set may have."""
        if collation.startswith("uca1400_"):
            return ""
        if collation == "binary":
            raise _NotUnderstood
        return collation.partition("_")[0]

    def _column(self) -> ColumnText:
        name = self.column_name()
        is_serial = self.word() == "SERIAL"
        type_, charset = self._type()
        is_nullable, place, unique = (
            None if not is_serial else False,
            None,
            "UNIQUE" if is_serial else "",
        )
        is_text, is_generated = charset is None, False
        while not self.is_done():
            if self.skip("NOT", "NULL") or self.skip("AUTO_INCREMENT"):
                is_nullable = False
            elif self.skip("NULL"):
                is_nullable = True
            elif self.skip("SERIAL", "DEFAULT", "VALUE"):
                is_nullable, unique = False, "UNIQUE"
            elif self.skip("DEFAULT") or self.skip("ON", "UPDATE"):
                self._value()
            elif self.skip("PRIMARY", "KEY") or self.skip("KEY"):
                unique = _only(unique, PRIMARY)
            elif self.skip("UNIQUE"):
                self.skip("KEY")
                unique = _only(unique, "UNIQUE")
            elif self._skip_charset():
                self.skip("=")
                charset = self._charset_name()
            elif is_text and self.word() in _CHARSET_WORDS:
                charset = _CHARSET_WORDS[self.take().text.upper()]
            elif is_text and self.skip("BINARY"):
                continue
            elif self.skip("COLLATE"):
                of_collation = self._charset_of(self._charset_name())
                charset = charset or of_collation or None
            elif self.skip("CHECK"):
                self.parentheses()
            elif self.skip("GENERATED", "ALWAYS", "AS") or self.skip("AS"):
                self.parentheses()
                is_generated = True
            elif self.skip("CONSTRAINT"):
                if self.word() != "CHECK":
                    self.name()
            elif self.skip("REFERENCES"):
                self._references()
            elif self.skip("COMPRESSED"):
                if self.skip("="):
                    self.take()
            elif self.skip("FIRST"):
                place = FIRST
            elif self.skip("AFTER"):
                place = self.column_name()
            else:
                self._attribute()
        if is_nullable is None:
            is_nullable = self._is_nullable(type_, is_generated=is_generated)
        return ColumnText(
            TableColumn(name, type_, charset or "", is_nullable and unique != PRIMARY),
            charset,
            place,
            unique,
        )

    def _is_nullable(self, type_: str, *, is_generated: bool) -> bool:
        """Of a column that does not say it."""
        if not type_.startswith("timestamp") or (is_generated and self._session.is_mariadb):
            return True
        if self._session.explicit_timestamps is None:
            raise _NotUnderstood
        return self._session.explicit_timestamps

    def _references(self) -> None:
        self.column_name()
        if self.word() == "(":
            self.parentheses()
        while True:
            if self.skip("MATCH"):
                self.take()
            elif self.skip("ON", "DELETE") or (
                self.word(2) in ("RESTRICT", "CASCADE", "SET", "NO") and self.skip("ON", "UPDATE")
            ):
                self.skip("RESTRICT") or self.skip("CASCADE") or self.skip(
                    "NO", "ACTION"
                ) or self.skip("SET", "NULL")
                self.skip("SET", "DEFAULT")
            else:
                return

    def _attribute(self) -> None:
        for words, values in _ATTRIBUTES.items():
            if self.skip(*words):
                self.skip("=")
                for _ in range(values):
                    self.take()
                return
        if (
            self._session.is_mariadb
            and self.kind() in (Kind.WORD, Kind.NAME)
            and self.word(1) == "="
        ):
            for _ in range(3):  # an engine's own
                self.take()
            return
        raise _NotUnderstood

    def _value(self) -> None:
        """A default: a literal with its sign or introducer, an expression in parentheses, or a
        function."""
        if self.word() == "(":
            self.parentheses()
            return
        token = self.take()
        while token.text in ("-", "+") or token.kind is Kind.INTRODUCER:
            token = self.take()
        is_dated = token.kind is Kind.WORD and token.text.upper() in ("DATE", "TIME", "TIMESTAMP")
        while (token.kind is Kind.STRING or is_dated) and self.kind() is Kind.STRING:
            self.take()
        if token.kind is Kind.WORD and token.text.upper() == "NEXT":
            self.expect("VALUE", "FOR")
            self.column_name()
        elif token.kind is Kind.WORD:
            while self.skip("."):
                self.name()
            if self.word() == "(":
                self.parentheses()

    def _type(self) -> tuple[str, str | None]:
        """information_schema's column_type as far as rows need it, and the character set that
        the type itself names."""
        if self.skip("MARIADB_SCHEMA", "."):
            return self._type_named(self._word(), {})
        oracle = _ORACLE_TYPES if self._session.has(ORACLE) else {}
        return self._type_named(self._word(), oracle)

    def _word(self) -> str:
        token = self.take()
        if token.kind is not Kind.WORD:
            raise _NotUnderstood
        return token.text.lower()

    def _type_named(self, word: str, others: dict[str, str]) -> tuple[str, str | None]:
        charset = None
        if word == "national" or word in ("nchar", "nvarchar"):
            charset = "utf8mb3"
            word = self._word() if word == "national" else word[1:]
        if word == "long":
            if self.skip("VARBINARY"):
                return "mediumblob", charset
            if (
                self.skip("VARCHAR")
                or self.skip("VARCHARACTER")
                or self.skip("CHAR", "VARYING")
                or self.skip("CHARACTER", "VARYING")
            ):
                return "mediumtext", charset
            return "mediumtext", charset
        name = others.get(word) if (word, self.word()) != ("blob", "(") else None
        name = name or _TYPES.get(word)
        if name is None:
            raise _NotUnderstood
        if name == "char" and (
            self.skip("VARYING")
            or (charset and (self.skip("VARCHAR") or self.skip("VARCHARACTER")))
        ):
            name = "varchar"
        if name == "json":
            return ("longtext", "utf8mb4") if self._session.is_mariadb else (name, None)
        if word in ("double", "float8"):
            self.skip("PRECISION")
        if word == "real" and self._session.has(REAL_AS_FLOAT):
            name = "float"
        if name == "timestamp" and self._session.has(MAXDB):
            name = "datetime"
        if self._session.is_mariadb and name == "geomcollection":
            name = "geometrycollection"
        if not self._session.is_mariadb and name == "geometrycollection":
            name = "geomcollection"
        if name in ("enum", "set"):
            return f"{name}({self._labels()})", charset
        size = ""
        if self.word() == "(":
            size = "".join(token.text for token in self.parentheses())
            if not re.fullmatch(r"\d+(,\d+)?", size):
                raise _NotUnderstood  # VARCHAR2(9 CHAR)
        if word == "number" and not size:
            name = "double"
        if word == "bool" or word == "boolean":
            size = "1"
        if name == "float" and re.fullmatch(r"2[5-9]|[3-9]\d", size):
            name, size = "double", ""
        if name == "decimal":
            size = size or "10"
            size = ("10" + size[1:] if re.fullmatch(r"0(,\d+)?", size) else size) + (
                "" if "," in size else ",0"
            )
        type_ = f"{name}({size})" if size else name
        while self.word() in ("UNSIGNED", "ZEROFILL", "SIGNED"):
            if self.take().text.upper() != "SIGNED" and not type_.endswith("unsigned"):
                type_ += " unsigned"
        return type_, charset

    def _labels(self) -> str:
        labels = []
        for part in _parts(self.parentheses()):
            if len(part) != 1 or part[0].kind is not Kind.STRING:
                raise _NotUnderstood
            label = stored(self._session.literals, part[0].text.rstrip(" "))
            if label is None:
                raise _NotUnderstood
            labels.append("'" + _escaped(label) + "'")
        return ",".join(labels)


def _escaped(label: str) -> str:
    """As the servers print it in column_type."""
    for character, text in (
        ("\\", "\\\\"),
        ("\0", "\\0"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("'", "''"),
    ):
        label = label.replace(character, text)
    return label


def _only(unique: str, other: str) -> str:
    """A column that is a key twice over has two keys, or one: for the server to say."""
    if unique:
        raise _NotUnderstood
    return other


def _if_missing(action: Action) -> Action:
    if not isinstance(action, AddColumn):
        raise _NotUnderstood
    return replace(action, if_missing=True)

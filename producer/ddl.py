"""DDL statements to what they change about tables: which tables, and how, as far as the text says it. Pure; never raises.

The tokens are sqlglot's. Only what is understood to its last word counts as understood: anything else is `actions=None` where the table is
known, `Unread` where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.table_schema import (
    FIRST,
    PRIMARY,
    Action,
    AddColumn,
    AddUnique,
    ChangeColumn,
    ColumnText,
    DropColumn,
    DropIndex,
    RenameColumn,
    RenameIndex,
    SetCharset,
    TableColumn,
    UniqueKey,
)


@dataclass(frozen=True, slots=True)
class Altered:
    """`actions` is None where the text is not understood."""

    table: TableId
    actions: tuple[Action, ...] | None


@dataclass(frozen=True, slots=True)
class Created:
    """`actions` make the table from nothing; None where they are not understood. `like`: a copy of that table. `if_missing`: nothing
    happens when it is there."""

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
    """A statement that may change any table that it names. `words` are all its words; None: not even these are known."""

    words: frozenset[str] | None


Change = Altered | Created | Dropped | Renamed | SchemaDropped | SchemaAltered | Unread


def _set(words: str) -> set[str]:
    return set(words.split())


# Statements, and objects after CREATE, ALTER, DROP and RENAME, that leave tables as they are.
_HARMLESS = _set(
    "GRANT REVOKE SET FLUSH ANALYZE OPTIMIZE REPAIR CHECK CALL SAVEPOINT RELEASE ROLLBACK COMMIT INSTALL UNINSTALL XA CHANGE START STOP"
    " RESET PURGE KILL USE LOCK UNLOCK TRUNCATE SHUTDOWN SIGNAL BEGIN"
)
_OTHER_OBJECTS = _set(
    "USER ROLE VIEW TRIGGER PROCEDURE FUNCTION EVENT DEFINER SQL ALGORITHM SERVER AGGREGATE LOGFILE TABLESPACE UNDO RESOURCE PACKAGE"
    " SEQUENCE INSTANCE LIBRARY MATERIALIZED"
)
_EXECUTABLE = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)


def changes(sql: bytes, schema: str) -> list[Change]:
    """What a statement changes, in its order; `schema` is the session's. Empty for what leaves all tables' columns and keys as they are."""
    text = sql.decode("utf-8", "replace")
    unwrapped = _EXECUTABLE.sub(r" \1 ", text)
    try:
        tokens = _tokens(unwrapped)
    except TokenError:
        return [Unread(_words(re.findall(r"\w+", unwrapped)))]
    reader = _Statement(tokens, schema, is_plain=unwrapped == text and "\ufffd" not in text, has_escapes="\\" in text)
    try:
        return reader.statement()
    except _NotUnderstood:
        return [Unread(_words(token.text for token in tokens))]


@dataclass(frozen=True, slots=True)
class Named:
    """A table that a statement is about, under the name that it has afterwards. `kind` is canal's word for what happens to it; `was`: its
    name before a RENAME."""

    kind: str
    table: TableId
    was: TableId | None = None
    is_temporary: bool = False


def named(sql: bytes, schema: str) -> list[Named] | None:
    """The tables that a statement defines anew, or empties, in its order; `schema` is the session's. Empty for what does neither; None
    where it is not understood."""
    try:
        tokens = _tokens(_EXECUTABLE.sub(r" \1 ", sql.decode("utf-8")))
        return _Naming(tokens, schema, is_plain=False, has_escapes=False).names()
    except (UnicodeDecodeError, TokenError, _NotUnderstood):
        return None


def folded(change: Change) -> Change:
    """With the names of tables in lower case, for servers that take them in any."""

    def lower(table: TableId) -> TableId:
        return TableId(table.schema.lower(), table.table.lower())

    if isinstance(change, Renamed):
        return Renamed(lower(change.table), lower(change.to))
    if isinstance(change, Created):
        return replace(change, table=lower(change.table), like=lower(change.like) if change.like else None)
    if isinstance(change, Altered | Dropped):
        return replace(change, table=lower(change.table))
    if isinstance(change, Unread):
        return Unread(change.words and frozenset(word.lower() for word in change.words))
    return replace(change, schema=change.schema.lower())


def _words(texts: Sequence[str] | Iterator[str]) -> frozenset[str] | None:
    words = frozenset(texts)
    return None if any("\ufffd" in word for word in words) else words


def _tokens(text: str) -> list[Token]:
    tokens = sqlglot.tokenize(text, read="mysql")
    if tokens and tokens[0].text.upper() == "RENAME" and len(tokens) > 1:  # sqlglot leaves what follows whole
        tokens = [tokens[0], *sqlglot.tokenize(tokens[1].text, read="mysql")]
    return [one for token in tokens for one in _single(token)]


def _single(token: Token) -> list[Token]:
    """sqlglot makes one token of some pairs of keywords."""
    if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) or " " not in token.text.strip():
        return [token]
    return [Token(TokenType.VAR, word) for word in token.text.split()]


class _NotUnderstood(Exception):
    """The text goes on in a way that is not known here."""


class _Reader:
    """A walk over tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._at = tokens, 0

    def word(self, ahead: int = 0) -> str:
        """The keyword, sign or number that comes, in upper case; empty at the end, a blank for quoted names and for strings."""
        if self._at + ahead >= len(self._tokens):
            return ""
        token = self._tokens[self._at + ahead]
        return " " if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) else token.text.upper()

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
        if token.token_type is not TokenType.IDENTIFIER and not re.fullmatch(r"[\w$]+", token.text):
            raise _NotUnderstood
        if token.token_type in (TokenType.STRING, TokenType.INTRODUCER):
            raise _NotUnderstood
        return token.text

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
    return {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)


def _parts(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at the commas that stand in no parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += _depth(token)
        if token.token_type is TokenType.COMMA and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


class _Statement(_Reader):
    def __init__(self, tokens: Sequence[Token], schema: str, *, is_plain: bool, has_escapes: bool) -> None:
        super().__init__(tokens)
        self._schema, self._is_plain, self._has_escapes = schema, is_plain, has_escapes

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
        name = self.name()
        return TableId(name, self.name()) if self.skip(".") else TableId(self._schema, name)

    def _wait(self) -> None:
        """MariaDB's limit on waiting for locks."""
        if not self.skip("NOWAIT") and self.skip("WAIT"):
            self.take()

    def _understood(self, read: Callable[[], list[Action]]) -> tuple[Action, ...] | None:
        """The actions, or None where they are not understood."""
        if not self._is_plain:
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
                is_named = self.word() not in ("DEFAULT", "CHARACTER", "CHARSET", "CHAR", "COLLATE", "COMMENT", "ENCRYPTION", "READ")
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
        actions = self._understood(lambda: [action for part in parts if not _is_rename(part) for action in self._alter_actions(part)])
        if actions != ():
            found.append(Altered(table, actions))
        for part in renames:
            reader = _Statement(part, self._schema, is_plain=True, has_escapes=False)
            reader.take()
            reader.skip("TO") or reader.skip("AS") or reader.skip("=")
            to = reader._table()
            reader.end()
            found.append(Renamed(table, to))
        return found

    def _alter_actions(self, part: Sequence[Token]) -> list[Action]:
        return _Action(part, self._has_escapes).alter()

    def _create(self) -> list[Change]:
        replaces = self.skip("OR", "REPLACE")
        is_temporary = self.skip("TEMPORARY")
        if self.skip("TABLE"):
            return self._create_table(is_temporary)
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
        return [Altered(table, None if if_missing else self._understood(lambda: [AddUnique(_unique(index, self.parentheses()))]))]

    def _create_table(self, is_temporary: bool) -> list[Change]:
        if_missing = self.skip("IF", "NOT", "EXISTS")
        table = self._table()
        inside = _Statement(self.parentheses(), self._schema, is_plain=True, has_escapes=False) if self.word(1) == "LIKE" else self
        if inside.skip("LIKE"):
            like = inside._table()
            inside.end()
            return [Created(table, None, like, if_missing, is_temporary)]
        return [Created(table, self._understood(self._definition), None, if_missing, is_temporary)]

    def _definition(self) -> list[Action]:
        found: list[Action] = []
        for part in _parts(self.parentheses()):
            found += _Action(part, self._has_escapes).definition()
        options = _Action(self.rest(), self._has_escapes)
        found += options.table_options()
        return found

    def _drop(self) -> list[Change]:
        is_temporary = self.skip("TEMPORARY")
        if self.skip("TABLE") or self.skip("TABLES"):
            self.skip("IF", "EXISTS")
            found: list[Change] = [Dropped(self._table(), is_temporary)]
            while self.skip(","):
                found.append(Dropped(self._table(), is_temporary))
            self.skip("RESTRICT") or self.skip("CASCADE")
            self._wait()
            if not self.skip(";"):
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
        if not self.skip(";"):
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
            return [Named("RENAME", change.to, change.table) for change in self._rename() if isinstance(change, Renamed)]
        if verb == "TRUNCATE":
            return self._truncated()
        self.skip("OR", "REPLACE")
        is_temporary = self.skip("TEMPORARY")
        while self.word() in ("ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
            self.take()
        if self.skip("TABLE") or self.skip("TABLES"):
            self.skip("IF", "NOT", "EXISTS") or self.skip("IF", "EXISTS")
            tables = [self._table()]
            if verb == "ALTER":
                return self._altered(tables[0])
            while verb == "DROP" and self.skip(","):
                tables.append(self._table())
            return [Named("CREATE" if verb == "CREATE" else "ERASE", table, None, is_temporary) for table in tables]
        return self._indexed("CINDEX" if verb == "CREATE" else "DINDEX") if self.skip("INDEX") else []

    def _truncated(self) -> list[Named]:
        self.skip("TABLE")
        table = self._table()
        self._wait()
        self.skip(";")
        self.end()
        return [Named("TRUNCATE", table)]

    def _altered(self, table: TableId) -> list[Named]:
        """By its first action, as canal does."""
        self._wait()
        first = _parts(self.rest())[0]
        if _is_rename(first):
            to = _Statement(first[1:], self._schema, is_plain=True, has_escapes=False)
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


def _unique(name: str, tokens: Sequence[Token]) -> UniqueKey:
    columns, is_whole = [], True
    for part in _parts(tokens):
        reader = _Reader(part)
        if reader.word() == "(":
            return UniqueKey(name, (), is_whole=False)  # an expression
        columns.append(reader.name())
        if not reader.is_done() and reader.word() == "(":
            reader.parentheses()
            is_whole = False
        reader.skip("ASC") or reader.skip("DESC")
        reader.end()
    return UniqueKey(name, tuple(columns), is_whole)


# What may follow a column's type and says nothing of its values' form: words, and how many names or values follow each.
_ATTRIBUTES = {
    ("AUTO_INCREMENT",): 0,
    ("COMMENT",): 1,
    ("VIRTUAL",): 0,
    ("STORED",): 0,
    ("PERSISTENT",): 0,
    ("INVISIBLE",): 0,
    ("VISIBLE",): 0,
    ("SRID",): 1,
    ("COLUMN_FORMAT",): 1,
    ("STORAGE",): 1,
}
# Table options and ALTER actions that leave columns and keys as they are, by their first word.
_OPTIONS = _set(
    "ENGINE AUTO_INCREMENT COMMENT ROW_FORMAT KEY_BLOCK_SIZE ALGORITHM LOCK AVG_ROW_LENGTH CHECKSUM TABLE_CHECKSUM DELAY_KEY_WRITE"
    " INSERT_METHOD MAX_ROWS MIN_ROWS PACK_KEYS STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES COMPRESSION ENCRYPTION CONNECTION"
    " PAGE_CHECKSUM TRANSACTIONAL AUTOEXTEND_SIZE ENCRYPTED ENCRYPTION_KEY_ID PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL ENGINE_ATTRIBUTE"
)
_HARMLESS_ACTIONS = _set(
    "ENABLE DISABLE FORCE WITH WITHOUT ORDER PARTITION REMOVE REORGANIZE COALESCE TRUNCATE ANALYZE CHECK OPTIMIZE REBUILD REPAIR DISCARD"
    " IMPORT NOWAIT WAIT SECONDARY_LOAD SECONDARY_UNLOAD"
)
_GEOMETRIES = "geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection geomcollection"
_TYPES = {
    **{name: name for name in _set("tinyint smallint mediumint int bigint float double decimal bit year date time datetime timestamp")},
    **{name: name for name in _set("char binary varchar varbinary enum set json uuid inet4 inet6 vector")},
    **{prefix + kind: prefix + kind for prefix in ("tiny", "", "medium", "long") for kind in ("text", "blob")},
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
    "character": "char",
    "bool": "tinyint(1)",
    "boolean": "tinyint(1)",
    "geomcollection": "geomcollection",
}


class _Action(_Reader):
    """One part of ALTER TABLE or of CREATE TABLE's parentheses."""

    def __init__(self, tokens: Sequence[Token], has_escapes: bool) -> None:
        super().__init__(tokens[:-1] if tokens and tokens[-1].token_type is TokenType.SEMICOLON else tokens)
        self._has_escapes = has_escapes

    def alter(self) -> list[Action]:
        if self.skip("ADD"):
            if (key := self._key()) is not None:
                return key
            if self.word() in ("PARTITION", "SYSTEM", "PERIOD"):
                return self._harmless_partition()
            self.skip("COLUMN")
            if self.word() == "(":
                inside = [_Action(part, self._has_escapes) for part in _parts(self.parentheses())]
                self.end()
                return [action for part in inside for action in part.definition()]
            return self._add_column()
        if self.skip("DROP"):
            return self._drop()
        if self.skip("MODIFY"):
            self.skip("COLUMN")
            text = self._column()
            return [ChangeColumn(text.column.name, text)]
        if self.skip("CHANGE"):
            self.skip("COLUMN")
            return [ChangeColumn(self.name(), self._column())]
        if self.skip("RENAME"):
            is_column = self.skip("COLUMN")
            if not is_column and not self.skip("INDEX"):
                self.expect("KEY")
            name = self.name()
            self.expect("TO")
            to = self.name()
            self.end()
            return [RenameColumn(name, to)] if is_column else [RenameIndex(name, to)]
        if self.skip("CONVERT", "TO"):
            charset = self._charset()
            self.end()
            return [SetCharset(charset, converts=True)]
        if self.skip("ALTER"):
            return self._alter_part()
        if self.word() in _HARMLESS_ACTIONS:
            self.rest()
            return []
        return self.table_options()

    def _alter_part(self) -> list[Action]:
        """A default, or the visibility of a column or an index: nothing that rows show."""
        self.skip("COLUMN") or self.skip("INDEX") or self.skip("KEY") or self.skip("CHECK") or self.skip("CONSTRAINT")
        self.name()
        if self.word() not in ("SET", "DROP", "INVISIBLE", "VISIBLE", "NOT", "IGNORED", "ENFORCED"):
            raise _NotUnderstood
        self.rest()
        return []

    def _harmless_partition(self) -> list[Action]:
        if not self.skip("PARTITION"):
            raise _NotUnderstood  # MariaDB's system versioning adds columns
        self.rest()
        return []

    def _drop(self) -> list[Action]:
        if self.skip("PRIMARY", "KEY"):
            self.end()
            return [DropIndex(PRIMARY)]
        if self.skip("FOREIGN") or self.skip("CHECK") or self.skip("PARTITION"):
            self.rest()
            return []
        kind = (
            self.word()
            if self.word() in ("INDEX", "KEY", "CONSTRAINT", "COLUMN") and self.word(1) not in ("", "RESTRICT", "CASCADE")
            else ""
        )
        if kind:
            self.take()
        name = self.name()
        self.skip("RESTRICT") or self.skip("CASCADE")
        self.end()
        return [DropColumn(name)] if kind in ("", "COLUMN") else [DropIndex(name)]

    def _key(self) -> list[Action] | None:
        """An index or constraint; None where none comes."""
        name = ""
        if self.skip("CONSTRAINT") and self.word() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            name = self.name()
        if self.word() in ("FOREIGN", "CHECK"):
            self.rest()
            return []
        if self.word() in ("INDEX", "KEY") or (
            self.word() in ("FULLTEXT", "SPATIAL", "VECTOR") and self.word(1) in ("INDEX", "KEY", " ", "(")
        ):
            self.rest()
            return []
        if self.skip("PRIMARY", "KEY"):
            return [AddUnique(self._unique(PRIMARY))]
        if self.skip("UNIQUE"):
            self.skip("INDEX") or self.skip("KEY")
            return [AddUnique(self._unique(name))]
        if name:
            raise _NotUnderstood
        return None

    def _unique(self, name: str) -> UniqueKey:
        if self.word() not in ("(", "USING"):
            given = self.name()
            name = name if name == PRIMARY else given
        if self.skip("USING"):
            self.take()
        unique = _unique(name, self.parentheses())
        while not self.is_done():
            if self.skip("USING") or self.skip("COMMENT") or self.skip("KEY_BLOCK_SIZE"):
                self.skip("=")
                self.take()
            elif not (self.skip("VISIBLE") or self.skip("INVISIBLE")):
                raise _NotUnderstood
        if not unique.name and not unique.columns:
            raise _NotUnderstood
        return unique if unique.name else UniqueKey(unique.columns[0], unique.columns, unique.is_whole)

    def _add_column(self) -> list[Action]:
        return [AddColumn(self._column())]

    def definition(self) -> list[Action]:
        """A column, index or constraint of CREATE TABLE."""
        key = self._key()
        return self._add_column() if key is None else key

    def table_options(self) -> list[Action]:
        """CREATE TABLE's after its parentheses, or one of ALTER TABLE's."""
        found: list[Action] = []
        while not self.is_done():
            self.skip(",")
            if self.word() == "PARTITION" or self.skip("START", "TRANSACTION"):
                self.rest()
            elif self.word() in ("DEFAULT", "CHARSET", "CHARACTER", "CHAR", "COLLATE"):
                self.skip("DEFAULT")
                found.append(SetCharset(self._charset(), converts=False))
            elif self.word() in _OPTIONS:
                self.take()
                self.skip("=")
                self.take()
            else:
                raise _NotUnderstood  # also CREATE TABLE ... SELECT, whose columns the text does not tell
        return found

    def _charset(self) -> str:
        """CHARACTER SET x [COLLATE y], or COLLATE y alone."""
        charset = ""
        if self.skip("CHARSET") or self.skip("CHARACTER", "SET") or self.skip("CHAR", "SET"):
            self.skip("=")
            charset = self._charset_name()
            if charset == "default":
                raise _NotUnderstood
        if self.skip("COLLATE"):
            self.skip("=")
            collation = self._charset_name()
            charset = charset or _charset_of(collation)
        if not charset:
            raise _NotUnderstood
        return charset

    def _charset_name(self) -> str:
        token = self.take()
        return token.text.lower()

    def _column(self) -> ColumnText:
        if self.word() == "IF":
            raise _NotUnderstood  # IF EXISTS, IF NOT EXISTS: what happens is not in the text
        name = self.name()
        type_, charset = self._type()
        is_nullable, place, unique = True, None, ""
        while not self.is_done():
            if self.skip("NOT", "NULL"):
                is_nullable = False
            elif self.skip("NULL"):
                is_nullable = True
            elif self.skip("DEFAULT") or self.skip("ON", "UPDATE"):
                self._value()
            elif self.skip("PRIMARY", "KEY") or self.skip("KEY"):
                unique = PRIMARY
            elif self.skip("UNIQUE"):
                self.skip("KEY")
                unique = "UNIQUE"
            elif self.skip("CHARSET") or self.skip("CHARACTER", "SET") or self.skip("CHAR", "SET"):
                charset = self._charset_name()
            elif self.skip("COLLATE"):
                collation = self._charset_name()
                charset = charset or _charset_of(collation)
            elif self.skip("GENERATED", "ALWAYS", "AS") or self.skip("AS") or self.skip("CHECK"):
                self.parentheses()
            elif self.skip("FIRST"):
                place = FIRST
            elif self.skip("AFTER"):
                place = self.name()
            else:
                self._attribute()
        if charset == "default":
            raise _NotUnderstood
        return ColumnText(TableColumn(name, type_, charset or "", is_nullable), charset, place, unique)

    def _attribute(self) -> None:
        for words, values in _ATTRIBUTES.items():
            if self.skip(*words):
                for _ in range(values):
                    self.take()
                return
        raise _NotUnderstood

    def _value(self) -> None:
        """A default: a literal with its sign or introducer, an expression in parentheses, or a function."""
        if self.word() == "(":
            self.parentheses()
            return
        token = self.take()
        while token.token_type in (TokenType.DASH, TokenType.PLUS, TokenType.INTRODUCER):
            token = self.take()
        if self.word() == "(":
            self.parentheses()

    def _type(self) -> tuple[str, str | None]:
        """information_schema's column_type as far as rows need it, and the character set that the type itself names."""
        given = self.take()
        if given.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            raise _NotUnderstood
        word = given.text.lower()
        name = _TYPES.get(word)
        if name is None:
            raise _NotUnderstood
        charset = "utf8mb4" if name == "json" else None
        if word == "double":
            self.skip("PRECISION")
        if name in ("enum", "set"):
            return f"{name}({self._labels()})", charset
        size = ""
        if self.word() == "(":
            size = "(" + "".join(token.text for token in self.parentheses()) + ")"
        if name == "float" and re.fullmatch(r"\((2[5-9]|[3-9]\d)\)", size):
            name = "double"
        type_ = name + size
        while self.word() in ("UNSIGNED", "ZEROFILL", "SIGNED"):
            if self.take().text.upper() != "SIGNED" and not type_.endswith("unsigned"):
                type_ += " unsigned"
        return type_, charset

    def _labels(self) -> str:
        tokens = self.parentheses()
        if self._has_escapes:  # NO_BACKSLASH_ESCAPES may be on or off
            raise _NotUnderstood
        labels = []
        for part in _parts(tokens):
            if len(part) != 1 or part[0].token_type is not TokenType.STRING:
                raise _NotUnderstood
            labels.append("'" + part[0].text.rstrip(" ").replace("'", "''") + "'")
        return ",".join(labels)


def _charset_of(collation: str) -> str:
    return collation.partition("_")[0]

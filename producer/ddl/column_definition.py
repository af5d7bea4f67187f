"""Column definitions of CREATE TABLE and ALTER TABLE. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cdcbus.producer.ddl.table_schema import FIRST, PRIMARY, ColumnText, TableColumn
from cdcbus.producer.ddl.token_reader import NotUnderstood
from cdcbus.producer.ddl.tokens import Kind
from cdcbus.producer.ddl.type_names import TypeReader

# Attributes after a column's type that do not affect the form of its values: words, and the number
# of names or values that follow.
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
# Shorthands for a text type's character set.
_CHARSET_WORDS = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}


@dataclass(slots=True)
class _Attributes:
    """The attributes read after a column's type. `charset` and `is_nullable`: None if not
    stated."""

    charset: str | None
    is_nullable: bool | None = None
    is_generated: bool = False
    place: str | None = None
    unique: str = ""

    def make_unique(self, kind: str) -> None:
        """Makes the column a key. `kind`: PRIMARY or UNIQUE. Raises NotUnderstood if it is one
        already: only the server knows whether that makes one key or two."""
        if self.unique:
            raise NotUnderstood
        self.unique = kind


class ColumnReader(TypeReader):
    """Reads a column: its name, its type and all its attributes."""

    def column(self) -> ColumnText:
        name = self.column_name()
        is_serial = self.word() == "SERIAL"
        type_, charset = self.type_()
        column = _Attributes(charset)
        if is_serial:  # BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE
            column.is_nullable = False
            column.unique = "UNIQUE"
        may_name_charset = charset is None
        while not self.is_done():
            if may_name_charset and self._skip_charset_word(column):
                continue
            if not (self._skip_constraint(column) or self._skip_form(column)):
                self._attribute()
        if column.is_nullable is None:
            is_nullable = self._is_nullable_by_default(type_, is_generated=column.is_generated)
        else:
            is_nullable = column.is_nullable
        if column.unique == PRIMARY:
            is_nullable = False
        return ColumnText(
            TableColumn(name, type_, column.charset or "", is_nullable),
            column.charset,
            column.place,
            column.unique,
        )

    def _skip_constraint(self, column: _Attributes) -> bool:
        """Passes NULL, DEFAULT, keys, CHECK and foreign keys."""
        if self.skip_one_of("NOT NULL", "AUTO_INCREMENT"):
            column.is_nullable = False
        elif self.skip("NULL"):
            column.is_nullable = True
        elif self.skip("SERIAL", "DEFAULT", "VALUE"):
            column.is_nullable = False
            column.unique = "UNIQUE"
        elif self.skip_one_of("DEFAULT", "ON UPDATE"):
            self._value()
        elif self.skip_one_of("PRIMARY KEY", "KEY"):
            column.make_unique(PRIMARY)
        elif self.skip("UNIQUE"):
            self.skip("KEY")
            column.make_unique("UNIQUE")
        elif self.skip("CHECK"):
            self.parentheses()
        elif self.skip("CONSTRAINT"):
            if self.word() != "CHECK":
                self.name()
        elif self.skip("REFERENCES"):
            self._references()
        else:
            return False
        return True

    def _skip_form(self, column: _Attributes) -> bool:
        """Passes character set, generated columns, compression, and the place among the columns."""
        if self.skip_charset():
            self.skip("=")
            column.charset = self._charset_name()
        elif self.skip("COLLATE"):
            of_collation = self._charset_of(self._charset_name())
            column.charset = column.charset or of_collation or None
        elif self.skip_one_of("GENERATED ALWAYS AS", "AS"):
            self.parentheses()
            column.is_generated = True
        elif self.skip("COMPRESSED"):
            if self.skip("="):
                self.take()
        elif self.skip("FIRST"):
            column.place = FIRST
        elif self.skip("AFTER"):
            column.place = self.column_name()
        else:
            return False
        return True

    def _skip_charset_word(self, column: _Attributes) -> bool:
        if self.word() in _CHARSET_WORDS:
            column.charset = _CHARSET_WORDS[self.take().text.upper()]
            return True
        return self.skip("BINARY")  # the character set's binary collation

    def _is_nullable_by_default(self, type_: str, *, is_generated: bool) -> bool:
        """Whether a column that does not state it is nullable. Raises NotUnderstood if unknown."""
        if not type_.startswith("timestamp") or (is_generated and self._session.is_mariadb):
            return True
        if self._session.explicit_timestamps is None:
            raise NotUnderstood
        return self._session.explicit_timestamps

    def charset(self) -> str:
        """Passes CHARACTER SET x [COLLATE y], or COLLATE y alone; returns the character set."""
        charset = ""
        if self.skip_charset():
            self.skip("=")
            charset = self._charset_name()
        if self.skip("COLLATE"):
            self.skip("=")
            of_collation = self._charset_of(self._charset_name())
            charset = charset or of_collation
        return charset

    def skip_charset(self) -> bool:
        return self.skip_one_of("CHARSET", "CHARACTER SET", "CHAR SET")

    def _charset_name(self) -> str:
        token = self.take()
        if token.kind is Kind.SIGN or token.text.lower() == "default":
            raise NotUnderstood
        return token.text.lower()

    def _charset_of(self, collation: str) -> str:
        """The character set of a collation; empty for MariaDB's collations that fit any."""
        if collation.startswith("uca1400_"):
            return ""
        if collation == "binary":
            raise NotUnderstood
        return collation.partition("_")[0]

    def _attribute(self) -> None:
        for words, values in _ATTRIBUTES.items():
            if self.skip(*words):
                self.skip("=")
                for _ in range(values):
                    self.take()
                return
        if not self.skip_engine_option():
            raise NotUnderstood

    def skip_engine_option(self) -> bool:
        """Passes `name = value`, an option of a storage engine in MariaDB."""
        is_name = self.kind() in (Kind.WORD, Kind.NAME)
        if not (self._session.is_mariadb and is_name and self.word(1) == "="):
            return False
        for _ in range(3):
            self.take()
        return True

    def _value(self) -> None:
        """Passes a default: a literal with its sign or introducer, an expression in parentheses, or
        a function."""
        if self.comes("("):
            self.parentheses()
            return
        token = self.take()
        while token.text in ("-", "+") or token.kind is Kind.INTRODUCER:
            token = self.take()
        word = token.text.upper() if token.kind is Kind.WORD else ""
        # adjacent strings are one literal; DATE '2024-01-01' is a literal, too
        if token.kind is Kind.STRING or word in ("DATE", "TIME", "TIMESTAMP"):
            while self.kind() is Kind.STRING:
                self.take()
        if word == "NEXT":
            self.expect("VALUE", "FOR")
            self.column_name()
        elif word:
            while self.skip("."):
                self.name()
            if self.comes("("):
                self.parentheses()

    def _references(self) -> None:
        """Passes the rest of a foreign key."""
        self.column_name()
        if self.comes("("):
            self.parentheses()
        while True:
            if self.skip("MATCH"):
                self.take()
            elif self.skip("ON", "DELETE") or self._skip_on_update():
                self.skip_one_of("RESTRICT", "CASCADE", "NO ACTION", "SET NULL")
                self.skip("SET", "DEFAULT")
            else:
                return

    def _skip_on_update(self) -> bool:
        """Passes ON UPDATE of a foreign key; ON UPDATE CURRENT_TIMESTAMP belongs to the column."""
        if self.word(2) not in ("RESTRICT", "CASCADE", "SET", "NO"):
            return False
        return self.skip("ON", "UPDATE")

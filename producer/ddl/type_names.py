"""Translates column types as DDL writes them to the names in information_schema. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cdcbus.producer.ddl.token_reader import NotUnderstood, TokenReader, split_at_commas
from cdcbus.producer.ddl.tokens import MAXDB, ORACLE, REAL_AS_FLOAT, Kind, Session, Token
from cdcbus.producer.decoding.charsets import stored

_OWN_NAMES = (
    "tinyint smallint mediumint int bigint float double decimal bit year date time datetime "
    "timestamp char binary varchar varbinary enum set json uuid inet4 inet6 vector "
    "tinytext text mediumtext longtext tinyblob blob mediumblob longblob "
    "geometry point linestring polygon multipoint multilinestring multipolygon "
    "geometrycollection geomcollection"
)
_SYNONYMS = {
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
_TYPES = {name: name for name in _OWN_NAMES.split()} | _SYNONYMS
# Types renamed by MariaDB's sql_mode ORACLE.
_ORACLE_TYPES = {
    "varchar2": "varchar",
    "raw": "varbinary",
    "clob": "longtext",
    "blob": "longblob",
    "date": "datetime",
    "number": "decimal",
}
_NATIONAL_CHARSET = "utf8mb3"
# As the servers print labels in column_type.
_ESCAPES = str.maketrans({"\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r", "'": "''"})

# A label as the servers print it in column_type: quotes doubled, some characters escaped.
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"''|\\.", re.DOTALL)
_CHARACTERS = {"''": "'", r"\0": "\0", r"\n": "\n", r"\r": "\r"}


class TypeReader(TokenReader):
    """Reads the type of a column."""

    def __init__(self, tokens: Sequence[Token], session: Session) -> None:
        super().__init__(tokens)
        self._session = session

    def type_(self) -> tuple[str, str | None]:
        """Passes a type; returns information_schema's column_type as far as rows need it, and the
        character set that the type itself names."""
        if self.skip("MARIADB_SCHEMA", "."):
            return self._type_named(self._word(), {})
        if self._session.has(ORACLE):
            return self._type_named(self._word(), _ORACLE_TYPES)
        return self._type_named(self._word(), {})

    def _word(self) -> str:
        token = self.take()
        if token.kind is not Kind.WORD:
            raise NotUnderstood
        return token.text.lower()

    def _type_named(self, word: str, renamed: dict[str, str]) -> tuple[str, str | None]:
        charset = None
        if word == "national":
            charset = _NATIONAL_CHARSET
            word = self._word()
        elif word in ("nchar", "nvarchar"):
            charset = _NATIONAL_CHARSET
            word = word[1:]
        if word == "long":
            return self._long(), charset
        name = self._own_name(word, renamed)
        if name == "char" and self._is_varying(is_national=charset is not None):
            name = "varchar"
        if name == "json" and self._session.is_mariadb:
            return "longtext", "utf8mb4"  # MariaDB keeps JSON as text
        if name == "json":
            return name, None
        if word in ("double", "float8"):
            self.skip("PRECISION")
        if name in ("enum", "set"):
            return f"{name}({self._labels()})", charset
        return self._sized(word, name), charset

    def _long(self) -> str:
        """Passes the rest of LONG, LONG VARCHAR and LONG VARBINARY."""
        if self.skip("VARBINARY"):
            return "mediumblob"
        self.skip_one_of("VARCHAR", "VARCHARACTER", "CHAR VARYING", "CHARACTER VARYING")
        return "mediumtext"

    def _own_name(self, word: str, renamed: dict[str, str]) -> str:
        """The server's own name for a type."""
        name = _TYPES.get(word)
        # sql_mode ORACLE makes BLOB a LONGBLOB, but leaves BLOB(9) unchanged
        if word in renamed and not (word == "blob" and self.comes("(")):
            name = renamed[word]
        if name is None:
            raise NotUnderstood
        if word == "real" and self._session.has(REAL_AS_FLOAT):
            return "float"
        if name == "timestamp" and self._session.has(MAXDB):
            return "datetime"
        if name in ("geomcollection", "geometrycollection"):
            # Each server takes both names, and keeps its own.
            if self._session.is_mariadb:
                return "geometrycollection"
            return "geomcollection"
        return name

    def _is_varying(self, *, is_national: bool) -> bool:
        """Passes VARYING of CHAR VARYING; NATIONAL CHAR VARCHAR is the same."""
        if self.skip("VARYING"):
            return True
        return is_national and self.skip_one_of("VARCHAR", "VARCHARACTER")

    def _sized(self, word: str, name: str) -> str:
        """Passes size and sign; returns the type with its size in parentheses, and `unsigned`."""
        size = ""
        if self.comes("("):
            size = "".join(token.text for token in self.parentheses())
            if not re.fullmatch(r"\d+(,\d+)?", size):
                raise NotUnderstood  # VARCHAR2(9 CHAR)
        if word == "number" and not size:
            name = "double"
        if word in ("bool", "boolean"):
            size = "1"
        # from 25 bits on, FLOAT(n) has the precision of a DOUBLE
        if name == "float" and re.fullmatch(r"2[5-9]|[3-9]\d", size):
            name = "double"
            size = ""
        if name == "decimal":
            size = _decimal_size(size)
        type_ = name
        if size:
            type_ = f"{name}({size})"
        while self.word() in ("UNSIGNED", "ZEROFILL", "SIGNED"):
            # ZEROFILL implies UNSIGNED
            is_unsigned = self.take().text.upper() != "SIGNED"
            if is_unsigned and not type_.endswith("unsigned"):
                type_ += " unsigned"
        return type_

    def _labels(self) -> str:
        """Passes the labels of ENUM or SET; returns them as column_type lists them."""
        labels = []
        for part in split_at_commas(self.parentheses()):
            if len(part) != 1 or part[0].kind is not Kind.STRING:
                raise NotUnderstood
            label = stored(self._session.literals, part[0].text.rstrip(" "))
            if label is None:
                raise NotUnderstood
            labels.append(label)
        return spelled_labels(labels)


def spelled_labels(labels: Iterable[str]) -> str:
    """The labels of ENUM or SET as column_type lists them."""
    return ",".join(f"'{label.translate(_ESCAPES)}'" for label in labels)


def _decimal_size(size: str) -> str:
    """Digits and scale: 10 digits if none or zero are given, scale 0 if none is."""
    digits, _, scale = size.partition(",")
    if digits in ("", "0"):
        digits = "10"
    return f"{digits},{scale or 0}"


def labels_in(column_type: str) -> tuple[str, ...]:
    """The labels of an ENUM or SET as information_schema spells its type."""
    return tuple(map(unescaped, _LABEL.findall(column_type)))


def unescaped(text: str) -> str:
    """The text of a string that the servers print between quotes, without escapes."""
    return _ESCAPED.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    return _CHARACTERS.get(escape[0], escape[0][1])

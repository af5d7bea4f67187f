"""Splits SQL text into tokens, as the server that ran it did: by the session's sql_mode, the
server's version and its kind. Pure.

Rules: `sql_lex.cc` and `sql/lex.h` of MySQL and MariaDB. Comments are left out, and so are the
marks around executable comments that the server ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from cdcbus.producer.decoding.charsets import NAMES as CHARSETS

REAL_AS_FLOAT, ANSI_QUOTES, ORACLE, MAXDB, NO_BACKSLASH_ESCAPES = (
    1,
    1 << 2,
    1 << 9,
    1 << 12,
    1 << 20,
)
# STRICT_TRANS_TABLES and STRICT_ALL_TABLES
STRICT = 1 << 21 | 1 << 22
PAD_CHAR_TO_FULL_LENGTH = 1 << 31


@dataclass(frozen=True, slots=True)
class Session:
    """How the server read a statement. `literals`: the character set of its strings, empty if
    unknown; `version`: the server's, as in executable comments (80400); `is_exact`: every character
    of its text is certain; `is_change`: the server says that it changed something, so a table that
    it creates IF NOT EXISTS did not exist; `explicit_timestamps`: whether a TIMESTAMP is nullable
    by default (explicit_defaults_for_timestamp), None if unknown."""

    sql_mode: int = 0
    literals: str = "utf8mb4"
    version: int = 999_999
    is_mariadb: bool = False
    is_exact: bool = True
    is_change: bool = False
    explicit_timestamps: bool | None = True

    def has(self, mode: int) -> bool:
        """Whether the sql_mode has this bit. ORACLE and MAXDB count for MariaDB only: MySQL has
        removed them."""
        return bool(self.sql_mode & mode) and (self.is_mariadb or mode not in (ORACLE, MAXDB))

    @property
    def encoding(self) -> str:
        """How a statement's text is decoded if it must be understood for certain."""
        if self.is_exact:
            return "utf-8"
        return "ascii"


PLAIN = Session()


class Kind(Enum):
    """A bare word, a quoted name, a string, a number (also x'..' and b'..'), a character set
    introducer before a string, any other sign."""

    WORD = auto()
    NAME = auto()
    STRING = auto()
    NUMBER = auto()
    INTRODUCER = auto()
    SIGN = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """`text` without quotes and escapes."""

    kind: Kind
    text: str


class NoTokens(Exception):
    """Text that a server would have read differently, or not at all."""


_SPACE = re.compile(r"[ \t\n\v\f\r]+|#[^\n]*|--(?=[\0- \x7f]|$)[^\n]*|/\*(?!!|M!).*?\*/", re.DOTALL)
_EXECUTABLE = re.compile(r"/\*(M?)!(\d{5,6})?")
_WORD = re.compile(r"[0-9A-Za-z$_\x80-\uffff]+")
_NUMBER = re.compile(r"\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+")
_BITS = re.compile(r"[xX]'[0-9A-Fa-f]*'|[bB]'[01]*'")
_NUMBER_WORD = re.compile(r"\d+|0x[0-9A-Fa-f]+|0b[01]+")
_ESCAPES = {
    "0": "\0",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "r": "\r",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}


def tokens(text: str, session: Session) -> list[Token]:
    """Returns all tokens. Raises NoTokens."""
    return list(_tokens(text, session))


def _tokens(text: str, session: Session) -> Iterator[Token]:
    at, is_inside, last = 0, False, Token(Kind.SIGN, "")
    while at < len(text):
        if found := _SPACE.match(text, at):
            at = found.end()
        elif found := _EXECUTABLE.match(text, at):
            if _is_run(found, session):
                at, is_inside = found.end(), True
            elif found[1] and not session.is_mariadb:
                at = _end_of_comment(text, at, nests=False)
            else:
                at = _end_of_comment(text, at, nests=True)
        elif is_inside and text.startswith("*/", at):
            at, is_inside = at + 2, False
        elif text.startswith("/*", at):
            raise NoTokens  # it does not end
        else:
            last, at = _token(text, at, session, last)
            yield last
    if is_inside:
        raise NoTokens


def _is_run(mark: re.Match[str], session: Session) -> bool:
    """Whether the server runs the contents of an executable comment with this mark."""
    if mark[1] and not session.is_mariadb:
        return False
    version = int(mark[2] or 0)
    is_of_mysql = session.is_mariadb and not mark[1] and 50_700 <= version <= 99_999
    return version <= session.version and not is_of_mysql


def _end_of_comment(text: str, at: int, *, nests: bool) -> int:
    """The end of a comment that is not run; it can contain other comments. Raises NoTokens."""
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        if found[0] == "/*":
            depth += 1
        else:
            depth -= 1
        if not depth or (found[0] == "*/" and not nests):
            return found.end()
    raise NoTokens


def _token(text: str, at: int, session: Session, last: Token) -> tuple[Token, int]:
    character = text[at]
    if character in "'\"`":
        is_name = character == "`" or (character == '"' and session.has(ANSI_QUOTES))
        value, end = _quoted(
            text, at, has_escapes=not is_name and not session.has(NO_BACKSLASH_ESCAPES)
        )
        return Token(Kind.NAME if is_name else Kind.STRING, value), end
    if found := _BITS.match(text, at):
        return Token(Kind.NUMBER, found[0]), found.end()
    follows_name = last.kind in (Kind.WORD, Kind.NAME) or last.text == "."
    if not follows_name or character != ".":
        found = _NUMBER.match(text, at)
        if (
            found
            and (last.text != "." or last.kind is not Kind.SIGN)
            and not _WORD.match(text, found.end())
        ):
            return Token(Kind.NUMBER, found[0]), found.end()
    if found := _WORD.match(text, at):
        if "\xa0" in found[0]:  # a blank in some character sets, a letter in others
            raise NoTokens
        return Token(
            _kind_of_word(found[0], text[found.end() : found.end() + 1]), found[0]
        ), found.end()
    return Token(Kind.SIGN, character), at + 1


def _kind_of_word(word: str, following: str) -> Kind:
    if _NUMBER_WORD.fullmatch(word):
        return Kind.NUMBER
    if (word in ("N", "n") and following == "'") or (
        word[0] == "_" and word[1:].lower() in CHARSETS
    ):
        return Kind.INTRODUCER
    return Kind.WORD


def _quoted(text: str, at: int, *, has_escapes: bool) -> tuple[str, int]:
    """Returns the text in the quotes that begin at `at`, and the index after them. Raises
    NoTokens."""
    quote, value, at = text[at], [], at + 1
    while at < len(text):
        character = text[at]
        if character == "\\" and has_escapes:
            escaped = text[at + 1 : at + 2]
            value.append(_ESCAPES.get(escaped, escaped))
            at += 2
        elif character != quote:
            value.append(character)
            at += 1
        elif text[at + 1 : at + 2] == quote:
            value.append(quote)
            at += 2
        else:
            return "".join(value), at + 1
    raise NoTokens

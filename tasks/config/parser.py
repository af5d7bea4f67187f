"""Reads a `.properties` text as entries with lines: java.util.Properties syntax, porter's prefix,
and what people's editors leave behind."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import javaproperties

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Diagnostics, Severity
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.misspelt import unknown_key_refusal
from cdcbus.tasks.config.keys.plugins import SECRET_OPTION, SOURCE_OPTION
from cdcbus.tasks.config.keys.task import find_key, nearest_key
from cdcbus.tasks.config.placeholders import has_placeholder, interpolate, sealed

# Java's three kinds of line end, also mixed in one file.
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# porter's files can number their tasks; here a file holds one task.
PREFIX = re.compile(r"porter\.task\[([0-9]+)\]\.")
BLANKS = " \t\f"
REMARK_SIGNS = ("#", "!")
# An escape; with a group where it is broken.
ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|(?=(u.{0,4}))u|[^u])")
HALF = re.compile("[\ud800-\udfff]")
REMARK = re.compile(r"[ \t]+#.*", re.DOTALL)
# Names of secrets among the options of Kafka and Spark, which the table of keys does not list.
SECRET_NAME = re.compile(
    r"passw|passphrase|pwd|secret|jaas|credential|token$|key\.pem$|keystore\.key$", re.IGNORECASE
)
# Secrets inside a value: in the query, in Connector/J's (password=...), in Oracle's or a URL's
# user:password@, in JAAS text. In a URL a password may hold / or ? although it must not, but a port
# with a path or query is none.
SECRET_INSIDE = re.compile(
    r"[?&;][A-Za-z]*(?i:password|pwd)=(?!\$\{)[^&;]"
    r"|^jdbc:.*[(,]\s*[A-Za-z]*(?i:password|pwd)\s*=\s*(?!\$\{)[^\s),]"
    r"|^jdbc:oracle:thin:[^@/]+/(?!\$\{)[^@]+@"
    r"|^jdbc:[a-z]+://[^/@:\[]*:(?!\$\{)(?:(?!\d+[/?,])[^@]+|(?:(?!\?[\w.$-]+[=&])[^@])+)@"
    r'|(?i:password)\s*=\s*"(?!\$\{)[^"]'
)
SAFE_FORM = (
    "anyone who can read this file can read it; write ${env:NAME}, ${file:/path} or "
    "${file:/path:key} instead"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a task. `written` is the value before its placeholders are filled, the form that
    may be shown. `origin`: the named source that it comes from; `line` is then the line that names
    the source."""

    key: str
    value: str
    written: str
    line: int
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The keys that a kind of file can have. `nearest` returns the known key most similar to an
    unknown one; `refusal` returns the reason why an unknown key refuses the file, or None."""

    find: Callable[[str], Key | None]
    nearest: Callable[[str], str | None]
    refusal: Callable[[str], str | None] = lambda _: None


MOST_BYTES: Final = 16 << 20
"""Of a file: more than any has, and little enough to read a wrong one."""

MOST_HINTS: Final = 30
"""The unknown keys of a file of which a similar known one is looked for."""

TASK_FILE = Vocabulary(find_key, nearest_key, unknown_key_refusal)


def read_text(path: Path, diagnostics: Diagnostics, what: str = "task file") -> str:
    """The text of a file: UTF-8, else Latin-1 with a warning. Raises ConfigError when it cannot be
    read."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{path}: the {what} cannot be read: {reason}; check its name and rights"
        ) from error
    if reason := _not_text(content):
        raise ConfigError(f"{path}: the {what} {reason}")
    try:
        # Editors on Windows put a byte order mark first, which would become part of the first key.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        diagnostics.warning(line, "", "not UTF-8; the file is read as ISO-8859-1: save it as UTF-8")
        # What java.util.Properties reads, and a decoding that never fails.
        return content.decode("iso-8859-1")


def _not_text(content: bytes) -> str:
    """Why a file cannot be one of keys and values; empty if it can."""
    if len(content) > MOST_BYTES:
        return f"is larger than {MOST_BYTES >> 20} MiB; expected a .properties file: check its name"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "is in UTF-16; save it as UTF-8"
    if b"\0" in content:
        return "has NUL bytes, and so is no text; expected a .properties file: check its name"
    return ""


def read_entries(
    text: str, environ: Mapping[str, str], diagnostics: Diagnostics, unfilled: Severity
) -> dict[str, Entry]:
    """The entries of a task file, placeholders filled. Oddities go to `diagnostics`, a placeholder
    that cannot be filled with severity `unfilled`."""
    entries = written_entries(text, diagnostics, TASK_FILE)
    for key, entry in entries.items():
        entries[key] = filled(entry, environ, diagnostics, unfilled)
    return entries


def filled(
    entry: Entry, environ: Mapping[str, str], diagnostics: Diagnostics, unfilled: Severity
) -> Entry:
    """The entry with its placeholders filled; a failure is reported with severity `unfilled`."""
    try:
        return replace(entry, value=interpolate(entry.written, environ))
    except ValueError as error:
        diagnostics.unfilled(unfilled, entry.line, entry.key, f"{error}{entry.origin}")
        return entry


def written_entries(
    text: str, diagnostics: Diagnostics, vocabulary: Vocabulary
) -> dict[str, Entry]:
    """The entries by key, without porter's prefix and with placeholders unfilled. The last entry
    of a key counts."""
    entries: dict[str, Entry] = {}
    numbers: set[str] = set()
    unknown = 0
    for line, key, written in _pairs(text, diagnostics):
        if prefix := PREFIX.match(key):
            numbers.add(prefix[1])
            key = key[prefix.end() :]
        unknown += vocabulary.find(key) is None
        # The search takes a while, and a file with so many is another one.
        if unknown > MOST_HINTS:
            vocabulary = replace(vocabulary, nearest=lambda _: None)
        entry = _entry(key, written, line, diagnostics, vocabulary)
        if key in entries:
            diagnostics.warning(
                line,
                key,
                f"repeated; this line counts, not line {entries[key].line}; keep one of them",
            )
        entries[key] = entry
    if len(numbers) > 1:
        tasks = ", ".join(f"porter.task[{number}]" for number in sorted(numbers))
        diagnostics.error(
            0,
            "",
            f"holds several tasks ({tasks}); expected one task per file; example: one file for "
            "each number",
        )
    return entries


def _pairs(text: str, diagnostics: Diagnostics) -> Iterator[tuple[int, str, str]]:
    """The first line, key and value of each element of a text that is not a remark."""
    for line, parts in _elements(text):
        joined = "".join(parts)
        # Behind a line that is only continued, such a sign begins a key.
        if joined.startswith(REMARK_SIGNS):
            joined = "\\" + joined
        try:
            [(key, value)] = javaproperties.loads(joined, list)
        except javaproperties.InvalidUEscapeError:
            for number, escape in _broken_escapes(line, parts):
                diagnostics.error(
                    number,
                    "",
                    rf"broken escape {escape}; expected \u and four hexadecimal digits; "
                    r"example: \u00FC",
                )
            continue
        # Half a surrogate pair cannot be encoded as UTF-8, so it could not be stored.
        if is_whole(key + value):
            yield line, key, value
        else:
            diagnostics.error(
                line, key, r"half a character; expected both halves; example: \uD83D\uDE00"
            )


def _elements(text: str) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line of each element of a text, and its parts: one for each of its
    lines, without what continues it. Joined here, as javaproperties looks for the end of an element
    in all of it, again at each line. Remarks and blank elements are left out."""
    first, parts = 1, list[str]()
    for number, line in enumerate(split_lines(text), 1):
        part = line.lstrip(BLANKS)
        if not parts:
            first = number
            if part.startswith(REMARK_SIGNS):
                continue
        is_continued = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        parts.append(part[:-1] if is_continued else part)
        if not is_continued:
            if any(parts):
                yield first, parts
            parts = []
    if any(parts):
        yield first, parts


def _broken_escapes(line: int, parts: Sequence[str]) -> list[tuple[int, str]]:
    """The first broken escape in each line of an element, with the line's number. `line`: that of
    its first line. An escape can continue in the next line."""
    ends = list(accumulate(map(len, parts)))
    found: dict[int, str] = {}
    for escape in ESCAPE.finditer("".join(parts)):
        if broken := escape[1]:
            found.setdefault(line + bisect_right(ends, escape.start()), "\\" + broken)
    return list(found.items())


def split_lines(text: str) -> list[str]:
    """The lines that findings count, without their ends. str.splitlines has more: a line separator
    or form feed is part of a value."""
    return [line.rstrip("\r\n") for line in LINE.findall(text)]


def is_whole(text: str) -> bool:
    """Whether a text holds no half of a surrogate pair."""
    return HALF.search(text) is None


def _entry(
    key: str, value: str, line: int, diagnostics: Diagnostics, vocabulary: Vocabulary
) -> Entry:
    """The entry with its placeholders unfilled."""
    known = vocabulary.find(key)
    if known is None:
        report_unknown(key, line, diagnostics, vocabulary)
    written = _cleaned(key, known, value, line, diagnostics)
    if is_inline_secret(key, known, written):
        diagnostics.warning(line, key, f"the secret is written in the file: {SAFE_FORM}")
    return Entry(key, "", written, line)


def report_unknown(key: str, line: int, diagnostics: Diagnostics, vocabulary: Vocabulary) -> None:
    """Reports a key that the vocabulary does not have: an unsafe error or a warning."""
    if refusal := vocabulary.refusal(key):
        diagnostics.unsafe(line, key, f"unknown key, without effect, {refusal}")
        return
    hint = spelling_hint(vocabulary.nearest(key))
    diagnostics.warning(line, key, f"unknown key, without effect; {hint}")


def spelling_hint(near: str | None) -> str:
    """What to do about an unknown key, given the known key most similar to it."""
    if not near:
        return "docs/configuration.md lists all keys"
    return f"did you mean {near}?"


def is_secret(key: str, known: Key | None) -> bool:
    """Whether a key's value must not be shown."""
    # A key such as kafka.* stands for any option, secret or not, so its name decides.
    if known is not None and not known.name.endswith("*"):
        return known.value_type.is_secret
    if key.startswith(SOURCE_OPTION):
        return SECRET_OPTION.search(key.removeprefix(SOURCE_OPTION)) is not None
    return SECRET_NAME.search(key) is not None


def _cleaned(key: str, known: Key | None, value: str, line: int, diagnostics: Diagnostics) -> str:
    """The value as it was meant: without a trailing remark and trailing blanks. Secrets and
    program text are taken verbatim; free text holds no remark."""
    # A secret may end in a blank or hold ` #`.
    if is_secret(key, known) or key == "consumer.eventProcessor.content":
        if value != value.rstrip():
            diagnostics.warning(
                line,
                key,
                "trailing blanks are part of a secret, as in porter; remove them if they are not "
                "intended",
            )
        return value
    remark = REMARK.search(value)
    if remark and known is not None and known.is_free_text:
        diagnostics.note(
            line,
            key,
            "the # and what follows it are part of this value; put a remark on a line of its own",
        )
        remark = None
    if remark:
        diagnostics.warning(
            line,
            key,
            "a remark after a value is part of the value in this format; it was left out: put it "
            "on a line of its own",
        )
        value = value[: remark.start()]
    elif value.rstrip() != value:
        diagnostics.warning(
            line,
            key,
            "trailing blanks are part of a value in this format; they were left out: remove them",
        )
    return value.rstrip()


def is_inline_secret(key: str, known: Key | None, written: str) -> bool:
    """Whether a value holds a secret itself instead of saying where it is."""
    # First: also a value of a harmless type can hold a password, such as an address.
    if SECRET_INSIDE.search(written):
        return True
    if (
        known is not None
        and (has_secret := known.value_type.has_secret)
        and not has_secret(written)
    ):
        return False
    return bool(written) and is_secret(key, known) and not has_placeholder(written)


def for_zookeeper(key: str, known: Key | None, written: str, environ: Mapping[str, str]) -> str:
    """The text as ZooKeeper may keep it: an inline secret is encrypted. Raises ValueError where
    that fails."""
    if not is_inline_secret(key, known, written):
        return written
    try:
        return sealed(written, environ)
    except ValueError as error:
        refusal = (
            "a secret is not stored in ZooKeeper in plain text, where anyone who reads the znode "
            "sees it"
        )
        remedy = (
            "write ${env:NAME}, ${file:/path} or ${file:/path:key} instead, or have it encrypted"
        )
        raise ValueError(f"{refusal}; {remedy}: {error}") from error

"""Named sources: keys that several task files share, their files, and how a task takes their
keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import javaproperties

from cdcbus.plugins.errors import CdcError, ConfigError, PositionUnavailable
from cdcbus.tasks.config.diagnostics import Diagnostic, Diagnostics, Severity
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.misspelt import unknown_key_refusal
from cdcbus.tasks.config.keys.task import find_key, nearest_key
from cdcbus.tasks.config.keys.types import PATH_NAME
from cdcbus.tasks.config.parser import (
    Entry,
    Vocabulary,
    filled,
    for_zookeeper,
    is_inline_secret,
    is_secret,
    read_text,
    report_unknown,
    spelling_hint,
    written_entries,
)
from cdcbus.tasks.config.placeholders import has_placeholder, masked
from cdcbus.tasks.process_identity import NODE_VARIABLE
from cdcbus.tasks.whole_file import write_whole

SIDES = CONSUMER, LOADER = "consumer.source.", "loader.source."
NAME_KEY = "sourceName"
FOLDER = "sources"
IN_ZOOKEEPER = "/datas/datesource"


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A source as it is stored. `entries`: by key without `consumer.source.` or `loader.source.`,
    placeholders unfilled; their line is 0 where they do not come from a file. `where` names the
    file or znode."""

    name: str
    where: str
    entries: Mapping[str, Entry]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def kind(self) -> str:
        """JDBC, CANAL or KAFKA, by its keys; else empty."""
        # Each kind has one key that no other kind has.
        for key, kind in (("url", "JDBC"), ("address", "CANAL"), ("servers", "KAFKA")):
            if key in self.entries:
                return kind
        return ""

    def shown(self) -> dict[str, str]:
        """The keys with their values, secrets masked."""
        shown: dict[str, str] = {}
        for key, entry in self.entries.items():
            shown[key] = _shown(key, entry.written)
        return shown

    def place(self, line: int) -> str:
        """The suffix of a diagnostic's sentence about this line of the source."""
        where = f"{self.where}:{line}" if line else self.where
        return f" (source {self.name}, {where})"


Lookup = Callable[[str], NamedSource | None]


def find_source_key(name: str) -> Key | None:
    """The key of a task file that a source's key name stands for; None for an unknown name."""
    # A source can serve either side, so a key of one of them is enough.
    return find_key(LOADER + name) or find_key(CONSUMER + name)


def nearest_source_key(name: str) -> str | None:
    """The known source key most similar to an unknown one; None where none is close."""
    near = nearest_key(LOADER + name) or nearest_key(CONSUMER + name)
    return near and near.removeprefix(LOADER).removeprefix(CONSUMER)


def source_refusal(name: str) -> str | None:
    """The reason why an unknown key of a source refuses the tasks that name the source, as a key
    of their own would; None where the key can be ignored."""
    refusal = unknown_key_refusal(LOADER + name) or unknown_key_refusal(CONSUMER + name)
    return refusal and refusal.replace(LOADER, "").replace(CONSUMER, "")


VOCABULARY = Vocabulary(find_source_key, nearest_source_key, source_refusal)


def unknown_keys(entries: Mapping[str, Entry]) -> Iterator[Diagnostic]:
    """The diagnostics for keys that no source has, where the entries do not come from a file."""
    found = Diagnostics()
    for key, entry in entries.items():
        if find_source_key(key) is None:
            report_unknown(key, entry.line, found, VOCABULARY)
    yield from found.found


def _shown(key: str, written: str) -> str:
    known = find_source_key(key)
    if is_secret(key, known) or is_inline_secret(key, known, written):
        return masked(written)
    return written


def source_folders(directory: str, task_file: Path | None = None) -> tuple[Path, ...]:
    """The folders that are searched for source files, in this order; only `directory` if it is
    set."""
    if directory:
        return (Path(directory),)
    folders = [Path(FOLDER)]
    # Beside the task file first, so that a folder of tasks works wherever commands run.
    if task_file is not None:
        folders.insert(0, task_file.parent / FOLDER)
    return tuple(dict.fromkeys(folders))


def source_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.properties"


def read_source_file(name: str, file: Path) -> NamedSource:
    """The source in a file. Raises ConfigError when the file cannot be read; faults in it become
    diagnostics."""
    diagnostics = Diagnostics()
    entries = written_entries(
        read_text(file, diagnostics, "file of the source"), diagnostics, VOCABULARY
    )
    return NamedSource(name, str(file), entries, tuple(diagnostics.found))


def in_folders(folders: tuple[Path, ...]) -> Lookup:
    """A lookup in files: the first folder that has a file for the name wins."""

    def look(name: str) -> NamedSource | None:
        for folder in folders:
            file = source_file(folder, name)
            if file.is_file():
                return read_source_file(name, file)
        return None

    return look


def first_of(*lookups: Lookup) -> Lookup:
    """A lookup that asks these lookups in order, until one has the source."""

    def look(name: str) -> NamedSource | None:
        for lookup in lookups:
            source = lookup(name)
            if source is not None:
                return source
        return None

    return look


def names_in(folders: tuple[Path, ...]) -> list[str]:
    """The names of all sources that have a file, sorted."""
    names: set[str] = set()
    for folder in folders:
        names.update(file.stem for file in folder.glob("*.properties"))
    return sorted(names)


def add_sources(
    entries: Mapping[str, Entry],
    lookup: Lookup,
    environ: Mapping[str, str],
    unfilled: Severity,
    diagnostics: Diagnostics,
) -> dict[str, Entry] | None:
    """The entries of a task merged with those of the sources that it names; the task's own win.
    Reports a source that is not found, and returns None then."""
    merged = dict(entries)
    is_whole = True
    for prefix in (CONSUMER, LOADER):
        naming = entries.get(prefix + NAME_KEY)
        if naming is None or not naming.value.strip():
            continue
        source = _looked_up(naming, lookup, diagnostics)
        if source is None:
            is_whole = False
            continue
        _report(source, naming, prefix, diagnostics)
        for entry in _placed(source, naming, prefix):
            own = entries.get(entry.key)
            # An empty line in the task counts as absent, as everywhere in `Settings`.
            if own is None or not own.written.strip():
                merged[entry.key] = filled(entry, environ, diagnostics, unfilled)
    if not is_whole:
        return None
    return merged


def _looked_up(naming: Entry, lookup: Lookup, diagnostics: Diagnostics) -> NamedSource | None:
    name = naming.value.strip()
    try:
        PATH_NAME.read(name)
    except ValueError:
        # Settings reports the wrong value, as for every key.
        return None
    try:
        source = lookup(name)
    except PositionUnavailable as error:
        if NODE_VARIABLE in os.environ:
            # A node waits for ZooKeeper.
            raise
        diagnostics.error(naming.line, naming.key, str(error))
        return None
    except CdcError as error:
        diagnostics.error(naming.line, naming.key, str(error))
        return None
    if source is None:
        sentence = (
            f"no source is called {name!r}; expected {name}.properties in a source folder, "
            f"or {IN_ZOOKEEPER}/{name} in ZooKeeper"
        )
        diagnostics.error(
            naming.line, naming.key, f"{sentence}; example: cdcbus source add {name} KEY=VALUE"
        )
    return source


def _report(source: NamedSource, naming: Entry, prefix: str, diagnostics: Diagnostics) -> None:
    for diagnostic in source.diagnostics:
        key = naming.key
        if diagnostic.key:
            key = prefix + diagnostic.key
        sentence = diagnostic.sentence + source.place(diagnostic.line)
        # `may_be_meant` stays, because the task's own file can allow the key.
        diagnostics.found.append(replace(diagnostic, line=naming.line, key=key, sentence=sentence))
    for key, entry in source.entries.items():
        # A key of the other side only.
        if find_source_key(key) is not None and find_key(prefix + key) is None:
            hint = ""
            if near := nearest_key(prefix + key):
                hint = f"; did you mean {near.removeprefix(prefix)}?"
            diagnostics.warning(
                naming.line,
                prefix + key,
                f"not a key of {prefix}*, without effect here{hint}{source.place(entry.line)}",
            )


def _placed(source: NamedSource, naming: Entry, prefix: str) -> list[Entry]:
    """The source's entries, placed on the line where the task names the source."""
    placed = []
    for key, entry in source.entries.items():
        # A source does not name another source, so there are no circles.
        if key != NAME_KEY:
            origin = source.place(entry.line)
            placed.append(replace(entry, key=prefix + key, line=naming.line, origin=origin))
    return placed


def check_pairs(pairs: Mapping[str, str]) -> None:
    """Raises ConfigError for the first key that no source has, or the first value that does not
    fit its key."""
    for name, written in pairs.items():
        key = find_source_key(name)
        if key is None or name == NAME_KEY:
            hint = spelling_hint(nearest_source_key(name))
            raise ConfigError(f"{name}: not a key of a source; {hint}")
        try:
            # A placeholder is filled where the task runs, so its value cannot be checked here.
            if not has_placeholder(written):
                key.value_type.read(written)
        except ValueError as error:
            raise ConfigError(
                f"{name}: wrong value; expected {key.value_type.expected}; example: "
                f"{name}={key.value_type.example}"
            ) from error


def pairs_for_zookeeper(pairs: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The pairs as ZooKeeper may keep them, with inline secrets encrypted. Raises ConfigError for
    a secret that cannot be encrypted."""
    kept = {}
    for name, written in pairs.items():
        try:
            kept[name] = for_zookeeper(name, find_source_key(name), written, environ)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
    return kept


def write_source_file(file: Path, pairs: Mapping[str, str], is_replacing: bool) -> None:
    """Writes the file, readable by its owner only; an existing one stays as it is until the new one
    is complete. Raises ConfigError when it cannot be written, or exists and `is_replacing` is not
    set."""
    text = javaproperties.dumps(pairs, timestamp=False)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode(), is_replacing=is_replacing, is_private=True)
    except FileExistsError as error:
        raise ConfigError(f"{file} exists already; --replace overwrites it") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error

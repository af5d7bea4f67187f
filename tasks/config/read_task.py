"""Reads a task file: text -> typed task, and everything that an operator should know about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.registry import (
    is_added_loader,
    is_added_source,
    loader_names,
    source_names,
)
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import ALLOW, Diagnostic, Diagnostics, Severity
from cdcbus.tasks.config.fetch_task import fetch_task, source_task
from cdcbus.tasks.config.keys.allow_lists import (
    ENVIRONMENT,
    FILLED_ENVIRONMENT,
    forbidden_code,
    forbidden_files,
    other_environment,
)
from cdcbus.tasks.config.keys.definition import Route
from cdcbus.tasks.config.keys.types import (
    ANY_ADDRESS,
    PATH_NAME,
    ValueType,
    split_list,
    word,
)
from cdcbus.tasks.config.load_task import load_task
from cdcbus.tasks.config.named_sources import (
    NAME_KEY,
    SIDES,
    Lookup,
    add_sources,
    in_folders,
    source_folders,
)
from cdcbus.tasks.config.parser import Entry, read_entries, read_text
from cdcbus.tasks.config.settings import Settings
from cdcbus.tasks.porter.dist_json import is_dist, properties_text, read_dist

ROUTES = {
    ("CanalFetch", "KAFKA_SYNC"): Route.FETCH,
    ("KafkaFetch", "JdbcBatch"): Route.LOAD,
    ("KafkaFetch", "JdbcSingle"): Route.LOAD,
    ("KafkaFetch", "JdbcMultiThread"): Route.LOAD,
    ("KafkaFetch", "JdbcSqlDebug"): Route.LOAD,
    ("KafkaFetch", "KAFKA_SYNC"): Route.FORWARD,
}
FORMER_LOADERS = {"JDBC_SQL_PRINT": "JdbcSqlDebug", "KAFKA_ASYNC": "KAFKA_SYNC"}
"""Words of porter 3.0.2 -> their successors. No synonyms: its KAFKA_ASYNC sends nothing."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A task that can run, and the warnings and notes about its file."""

    task: FetchTask | LoadTask
    warnings: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Inspection:
    """All diagnostics of a task's text; `task` is None when they include errors. `entries`: the
    text's own entries by key, without those from named sources. `draft`: the task also with
    errors, of whose keys it lacks the values; None where its kind or a named source is unknown."""

    task: FetchTask | LoadTask | None
    diagnostics: Diagnostics
    entries: Mapping[str, Entry]
    draft: FetchTask | LoadTask | None = None

    def using(self, needs: Callable[[str], bool]) -> Inspection:
        """The same for a command that needs these keys: their unfilled placeholders are errors."""
        diagnostics = Diagnostics()
        for found in self.diagnostics.found:
            # A note otherwise: a command should not want secrets that it does not use.
            if found.is_unfilled and needs(found.key):
                found = replace(found, severity=Severity.ERROR)
            diagnostics.found.append(found)
        task = self.task
        if diagnostics.of(Severity.ERROR):
            task = None
        return replace(self, task=task, diagnostics=diagnostics)

    def ready(self, place: str) -> ReadTask:
        """The task to run. Raises ConfigError with all errors, one per line, each beginning with
        the place."""
        if self.task is None:
            errors = self.diagnostics.of(Severity.ERROR)
            raise ConfigError("\n".join(error.located(place) for error in errors))
        return ReadTask(
            self.task, self.diagnostics.of(Severity.WARNING), self.diagnostics.of(Severity.NOTE)
        )


def read_task(
    path: Path, environ: Mapping[str, str] = os.environ, sources: Lookup | None = None
) -> ReadTask:
    """The task of a file. `sources` finds the sources that it names; None: only source files.
    Raises ConfigError with all errors of the file, one per line."""
    return inspect_task(path, environ, Severity.ERROR, sources).ready(str(path))


def inspect_task(
    path: Path,
    environ: Mapping[str, str] = os.environ,
    unfilled: Severity = Severity.NOTE,
    sources: Lookup | None = None,
) -> Inspection:
    """Inspects a file, valid or not: a task file, or porter's JSON. Raises ConfigError only for a
    file that cannot be read at all.

    A secret that is not available here is only a note, as the task may run elsewhere; `unfilled`
    can raise its severity.
    """
    diagnostics = Diagnostics()
    text = read_text(path, diagnostics)
    lookup = sources or in_folders(source_folders("", path))
    if is_dist(path, text):
        return inspect_dist(read_dist(path), environ, unfilled, lookup)
    return _inspect(text, environ, unfilled, diagnostics, lookup)


def inspect_text(
    text: str,
    environ: Mapping[str, str] = os.environ,
    unfilled: Severity = Severity.NOTE,
    sources: Lookup | None = None,
) -> Inspection:
    """The same for a text that is not in a file yet."""
    return _inspect(
        text, environ, unfilled, Diagnostics(), sources or in_folders(source_folders(""))
    )


def inspect_dist(
    config: Mapping[str, Any], environ: Mapping[str, str], unfilled: Severity, sources: Lookup
) -> Inspection:
    """The same for porter's dist object, which has no lines to name."""
    inspection = inspect_text(properties_text(config), environ, unfilled, sources)
    found = [replace(diagnostic, line=0) for diagnostic in inspection.diagnostics.found]
    entries = {key: replace(entry, line=0) for key, entry in inspection.entries.items()}
    return replace(inspection, diagnostics=Diagnostics(found), entries=entries)


def _inspect(
    text: str,
    environ: Mapping[str, str],
    unfilled: Severity,
    diagnostics: Diagnostics,
    sources: Lookup,
) -> Inspection:
    # Own lines first, then those of named sources: a limit of this machine applies to both.
    own = read_entries(text, environ, diagnostics, unfilled)
    entries = add_sources(own, sources, environ, unfilled, diagnostics)
    known = own if entries is None else entries
    settings = Settings(known, diagnostics, _other_kinds(known))
    values = {key: each.value for key, each in known.items()}
    for key, sentence in (*forbidden_code(values, environ), *forbidden_files(values, environ)):
        settings.reject(key, sentence)
    theirs = settings.get(ENVIRONMENT, PATH_NAME) or ""
    if sentence := other_environment(theirs, environ.get(FILLED_ENVIRONMENT, "")):
        settings.reject(ENVIRONMENT, sentence)
    task = _task(settings)
    if entries is None:
        # A source is missing. All other errors are reported, too, except missing keys that the
        # source may have.
        diagnostics.found[:] = [each for each in diagnostics.found if not _is_of_source(each, own)]
        task = None
    # Last, so that it covers what named sources and the typed task have reported.
    _allow(own, diagnostics)
    draft = task
    if diagnostics.of(Severity.ERROR):
        task = None
    return Inspection(task, diagnostics, own, draft)


def _is_of_source(found: Diagnostic, own: Mapping[str, Entry]) -> bool:
    """Whether a diagnostic is about a missing key that the named source of its side may have."""
    # Line 0 means that the key is missing.
    if found.line != 0:
        return False
    for prefix in SIDES:
        if found.key.startswith(prefix):
            return prefix + NAME_KEY in own
    return False


def _allow(own: Mapping[str, Entry], diagnostics: Diagnostics) -> None:
    """Applies `check.allow`, which counts only in the task's own file."""
    written = own.get(ALLOW)
    # Not from a named source: one that many tasks share must not waive the checks of all.
    if written is None:
        diagnostics.allow(())
        return
    keys = split_list(written.value)
    allowed = diagnostics.allow(keys)
    for key in keys:
        if key not in allowed:
            diagnostics.warning(
                written.line,
                ALLOW,
                f"{key} needs no permission; check its spelling, or remove it",
            )


def _task(settings: Settings) -> FetchTask | LoadTask | None:
    task_id = settings.need("taskId", PATH_NAME, "")
    consumer = settings.need("consumer.consumerName", word(*source_names()), "")
    loader = settings.need("loader.loaderName", _loader_word(settings), "")
    route = _route(consumer, loader)
    if route is None:
        _report_route(settings, consumer, loader)
        return None
    # Which keys have an effect depends on the route, so it comes after it.
    settings.answer(route, f"a task of {consumer} and {loader}")
    if route is Route.SOURCE:
        return source_task(task_id, consumer, settings)
    if route is Route.FETCH:
        return fetch_task(task_id, settings)
    return load_task(task_id, settings)


def _loader_word(settings: Settings) -> ValueType[str]:
    """The loaders' names. What is said of a former one begins with its successor."""
    known = word(*loader_names())
    entry = settings.entries.get("loader.loaderName")
    successor = FORMER_LOADERS.get(entry.value.strip()) if entry else None
    if successor is None:
        return known
    expected = f"{successor} in place of this word of porter 3.0.2, or {known.expected}"
    return replace(known, expected=expected, example=successor)


def _other_kinds(entries: Mapping[str, Entry]) -> dict[str, ValueType[Any]]:
    """The keys with another type than in the table. A loader from another package reads its
    address itself, so the address may have any form."""
    loader = entries.get("loader.loaderName")
    if loader is None or not is_added_loader(loader.value.strip()):
        return {}
    return {"loader.source.url": ANY_ADDRESS}


def _route(consumer: str, loader: str) -> Route | None:
    if consumer == "KafkaFetch" and is_added_loader(loader):
        return Route.LOAD
    if loader == "KAFKA_SYNC" and is_added_source(consumer):
        return Route.SOURCE
    return ROUTES.get((consumer, loader))


def _report_route(settings: Settings, consumer: str, loader: str) -> None:
    """Reports two known names that cannot be combined. A missing or unknown name is reported where
    it is read."""
    if not consumer or not loader:
        return
    # Rows of any other source go into topics first.
    wanted = sorted(to for of, to in ROUTES if of == consumer) or ["KAFKA_SYNC"]
    sentence = (
        f"{consumer} cannot be combined with {loader}; expected one of {', '.join(wanted)}; "
        f"example: loader.loaderName={wanted[0]}"
    )
    settings.reject("loader.loaderName", sentence)

"""A task file: text -> typed task, and everything an operator should know about the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cdcbus.consumer.task import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.task import FetchTask
from cdcbus.tasks.entries import read_entries, read_text
from cdcbus.tasks.fetch_task import fetch_task
from cdcbus.tasks.findings import Finding, Findings, Severity
from cdcbus.tasks.key import Route
from cdcbus.tasks.kinds import CONSUMER, LOADER, PATH_NAME
from cdcbus.tasks.load_task import load_task
from cdcbus.tasks.settings import Settings
from cdcbus.tasks.sources import Lookup, add_sources, in_folders, source_folders

ROUTES = {
    ("CanalFetch", "KAFKA_SYNC"): Route.FETCH,
    ("KafkaFetch", "JdbcBatch"): Route.LOAD,
    ("KafkaFetch", "JdbcSingle"): Route.LOAD,
    ("KafkaFetch", "JdbcMultiThread"): Route.LOAD,
}


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A task that can run, and what its file says that an operator should look at."""

    task: FetchTask | LoadTask
    warnings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Inspection:
    """All findings of a file; `task` is None when there are errors among them."""

    task: FetchTask | LoadTask | None
    findings: Findings


def read_task(path: Path, environ: Mapping[str, str] = os.environ, sources: Lookup | None = None) -> ReadTask:
    """The task of a file. `sources` finds the sources that it names; None: files alone. Raises ConfigError whose text lists everything that
    is wrong with the file, one line each."""
    inspection = inspect_task(path, environ, Severity.ERROR, sources)
    if inspection.task is None:
        errors = inspection.findings.of(Severity.ERROR)
        raise ConfigError("\n".join(finding.located(str(path)) for finding in errors))
    return ReadTask(inspection.task, inspection.findings.of(Severity.WARNING), inspection.findings.of(Severity.NOTE))


def inspect_task(
    path: Path, environ: Mapping[str, str] = os.environ, unfilled: Severity = Severity.NOTE, sources: Lookup | None = None
) -> Inspection:
    """What a file says, wrong or right. Raises ConfigError only for a file that cannot be read at all.

    A secret that cannot be had here is only a note, as the task may run elsewhere; `unfilled` makes it more.
    """
    findings = Findings()
    return _inspect(read_text(path, findings), environ, unfilled, findings, sources or in_folders(source_folders("", path)))


def inspect_text(text: str) -> Inspection:
    """The same for a text that is in no file yet."""
    return _inspect(text, os.environ, Severity.NOTE, Findings(), in_folders(source_folders("")))


def _inspect(text: str, environ: Mapping[str, str], unfilled: Severity, findings: Findings, sources: Lookup) -> Inspection:
    own = read_entries(text, environ, findings, unfilled)
    entries = add_sources(own, sources, environ, unfilled, findings)
    settings = Settings(own if entries is None else entries, findings)
    # Without its source a task would seem to miss all keys that the source has.
    task = None if entries is None else _task(settings)
    return Inspection(None if findings.of(Severity.ERROR) else task, findings)


def _task(settings: Settings) -> FetchTask | LoadTask | None:
    task_id = settings.need("taskId", PATH_NAME, "")
    consumer = settings.need("consumer.consumerName", CONSUMER, "")
    loader = settings.need("loader.loaderName", LOADER, "")
    route = ROUTES.get((consumer, loader))
    if route is None:
        _report_route(settings, consumer, loader)
        return None
    settings.answer(route, consumer)
    return fetch_task(task_id, settings) if route is Route.FETCH else load_task(task_id, settings)


def _report_route(settings: Settings, consumer: str, loader: str) -> None:
    """Two right names that do not go together; a missing or unknown one has been reported already."""
    if {consumer, loader} <= {name for route in ROUTES for name in route}:
        wanted = sorted(to for of, to in ROUTES if of == consumer)
        sentence = f"{consumer} does not go with {loader}; expected one of {', '.join(wanted)}; example: loader.loaderName={wanted[0]}"
        settings.reject("loader.loaderName", sentence)

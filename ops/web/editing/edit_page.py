"""Editing a task's text: write it, check it, review the changes, store it; and its versions.

It stores what `cdcbus task import --force` would store. Secrets in plain text are never shown:
their lines hold a substitute, and keep the secret.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused, status_of_error
from cdcbus.ops.web.auth import is_logged_in, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.editing.text_form import (
    DiffLine,
    Line,
    all_findings,
    difference,
    lines_of,
    plain,
)
from cdcbus.ops.web.pages.rendering import page
from cdcbus.ops.web.pages.shared import shared, task_address
from cdcbus.plugins.errors import CdcError, ConfigError, PositionConflict
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.config.read_task import Inspection, inspect_text
from cdcbus.tasks.control.named_task import stored_task
from cdcbus.tasks.editing.masked import masked_text, unmasked_text
from cdcbus.tasks.editing.versions import Version, put_tasks, versions_of
from cdcbus.tasks.porter.dist_json import properties_text
from cdcbus.tasks.zookeeper.task_configs import Dist, dists_of, texts_of

router = APIRouter()
CHECK, SYSTEMS, REVIEW, SAVE, RESTART = "check", "systems", "review", "save", "restart"
HOW = "task edit"


@dataclass(frozen=True, slots=True)
class Edited:
    """A text that is being edited. `base`: identifies the stored text that it began with.
    `refusal`: why it cannot be stored at all."""

    task_id: str
    text: str
    base: str
    inspection: Inspection | None
    refusal: str = ""

    @property
    def lines(self) -> Sequence[Line]:
        if self.inspection is None:
            return ()
        return lines_of(self.text, self.inspection.diagnostics)

    @property
    def findings(self) -> Sequence[Diagnostic]:
        if self.inspection is None:
            return ()
        return all_findings(self.inspection.diagnostics)

    @property
    def is_good(self) -> bool:
        return not self.refusal and self.inspection is not None and self.inspection.task is not None


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """A version, by its number from 1, and what it changed in the one before it."""

    number: int
    version: Version
    change: Sequence[DiffLine]


@router.get("/tasks/{task_id}/edit")
def edit_page(request: Request, task_id: str, version: int = 0) -> Response:
    """The form; with a version the text of that one, which is not stored yet."""
    bus = bus_of(request)
    actions.known_task(bus, task_id)
    if not is_logged_in(request):
        return RedirectResponse(f"/login?next={quote(task_address(task_id, '/edit'))}", 303)
    dist = stored_task(task_id, bus.settings)
    text = masked_text(dist)
    # The text of a version, but the base of what is stored: saving replaces that.
    if version:
        text = _version(bus, task_id, version).text
    return _form(request, edited(bus, task_id, text, base_of(dist), dist), dist)


@router.post("/tasks/{task_id}/edit")
def edit(
    request: Request,
    task_id: str,
    text: Annotated[str, Form()],
    base: Annotated[str, Form()],
    step: Annotated[str, Form()] = CHECK,
) -> Response:
    """Checks, shows what would change, or stores: never with an error in the text."""
    bus, who = bus_of(request), operator_of(request)
    actions.known_task(bus, task_id)
    dist = stored_task(task_id, bus.settings)
    work = edited(bus, task_id, plain(text), base, dist)
    # For a clear message early; `put_tasks` compares again while it stores.
    if step in (SAVE, RESTART) and base != base_of(dist):
        conflict = PositionConflict(
            f"the text of task {task_id} was changed by somebody else since you began; nothing is "
            "stored; look at its versions, and edit it again"
        )
        return _form(request, work, dist, refusal=conflict)
    if step in (SAVE, RESTART) and work.is_good:
        try:
            store(bus, work, dist, who)
            if step == RESTART:
                actions.restart(bus, task_id, who)
        except CdcError as error:
            return _form(request, work, dist, step=REVIEW, refusal=error)
        shared(request).overviews.changed()
        done = "saved-restart" if step == RESTART else "saved"
        return RedirectResponse(task_address(task_id, f"?done={done}"), 303)
    return _form(request, work, dist, step=step)


@router.get("/tasks/{task_id}/versions")
def versions_page(request: Request, task_id: str) -> Response:
    bus = bus_of(request)
    status = actions.known_task(bus, task_id)
    found = versions_of(bus.client, task_id)
    shown = []
    before = ""
    for number, version in enumerate(found, 1):
        change: Sequence[DiffLine] = ()
        # The oldest version has none before it to be compared with.
        if before:
            change = difference(before, version.text)
        shown.append(ShownVersion(number, version, change))
        before = version.text
    values = {
        "task_id": status.task_id,
        "versions": shown[::-1],
        "is_logged_in": is_logged_in(request),
    }
    return page(request, "versions.html", values, section="/")


def edited(bus: WebBus, task_id: str, text: str, base: str, dist: Dist) -> Edited:
    """The text with its diagnostics."""
    try:
        whole = unmasked_text(text, dist)
    except ConfigError as error:
        return Edited(task_id, text, base, None, str(error))
    inspection = inspect_text(
        whole, bus.settings.filling, Severity.NOTE, bus.settings.source_lookup()
    )
    refusal = ""
    if inspection.task is not None and inspection.task.task_id != task_id:
        refusal = (
            f"taskId: {inspection.task.task_id} is another task's id; expected {task_id}; a copy "
            f"is made by cdcbus task clone {task_id} {inspection.task.task_id}"
        )
    return Edited(task_id, text, base, inspection, refusal)


def store(bus: WebBus, work: Edited, dist: Dist, who: str, how: str = HOW) -> None:
    """Stores a good text. Raises PositionConflict where `dist` is no longer what is stored, and
    ConfigError for a new secret that cannot be encrypted. A secret that is already stored in plain
    text, as porter does, stays as it is."""
    assert work.inspection is not None
    place = f"task {work.task_id}"
    task = work.inspection.ready(place).task
    # Only the texts as written matter, so neither secrets nor sources are looked up.
    stored = inspect_text(properties_text(dist), {}, sources=lambda _: None).entries
    entries = work.inspection.entries
    # Lines that nobody changed are stored as they were: a secret that porter has written stays so.
    new = {}
    for key, entry in entries.items():
        if key not in stored or stored[key].written != entry.written:
            new[key] = entry
    encrypted = texts_of(new, place, bus.settings.filling)
    texts = {key: encrypted.get(key, entry.written) for key, entry in entries.items()}
    tasks = {work.task_id: dists_of(task, texts)}
    put_tasks(bus.client, tasks, True, who, how, {work.task_id: dist})


def base_of(dist: Dist) -> str:
    """A digest that identifies a stored text."""
    return hashlib.sha256(orjson.dumps(dist)).hexdigest()[:32]


def _version(bus: WebBus, task_id: str, number: int) -> Version:
    found = versions_of(bus.client, task_id)
    if not 1 <= number <= len(found):
        raise Refused(404, "there is no such version; the oldest are forgotten")
    return found[number - 1]


def _form(
    request: Request, work: Edited, dist: Dist, step: str = CHECK, refusal: CdcError | None = None
) -> Response:
    is_review = step in (REVIEW, SAVE, RESTART) and work.is_good
    values: dict[str, Any] = {
        "task_id": work.task_id,
        "work": work,
        "refusal": work.refusal,
        "is_review": is_review,
        "change": (),
        "is_checked": request.method == "POST",
        "results": None,
    }
    if is_review:
        values["change"] = difference(masked_text(dist), work.text)
    if step == SYSTEMS and work.is_good:
        values["results"] = results_of(bus_of(request), work)
    status = 200
    if refusal is not None:
        values["refusal"] = str(refusal)
        status = status_of_error(refusal)
    return page(request, "edit.html", values, section="/", status=status)


def results_of(bus: WebBus, work: Edited) -> Sequence[Any]:
    """What source, Kafka and target say about the text. Takes up to a minute where one is
    unreachable."""
    # Imported here: it loads the drivers.
    from cdcbus.tasks.control.beside import refuse_others_names
    from cdcbus.tasks.preflight.check import check_task

    assert work.inspection is not None and work.inspection.task is not None
    task, settings = work.inspection.task, bus.settings
    look_at_others = partial(refuse_others_names, task, settings)
    return check_task(task, settings.zookeeper, settings.zookeeper_auth, look_at_others)

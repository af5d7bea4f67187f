"""A new task in steps: its way, where rows come from, where they go, and its text, which can be
edited and is checked before it is stored. The questions are those of `cdcbus task new`.

Each step sends all answers: nothing is kept here between steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused, status_of_error
from cdcbus.ops.web.auth import NEW_TASK, is_logged_in, operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.editing.edit_page import Edited, edited, results_of
from cdcbus.ops.web.editing.text_form import plain
from cdcbus.ops.web.pages.rendering import page
from cdcbus.ops.web.pages.shared import shared, task_address
from cdcbus.plugins.errors import CdcError
from cdcbus.tasks.control.people import Person, Role
from cdcbus.tasks.editing.new_task import (
    ROUTES,
    TO_KAFKA,
    Answers,
    Question,
    new_text,
    password_variable,
    questions_of,
)
from cdcbus.tasks.editing.versions import put_tasks
from cdcbus.tasks.zookeeper.task_configs import dists_of, texts_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

router = APIRouter()
HOW = "task new"
WAY, FROM, TO, TEXT = STEPS = ("way", "from", "to", "text")
TITLES = {WAY: "Way", FROM: "From", TO: "To", TEXT: "Text"}
WAY_TEXTS = (
    "a fetch task: reads the binlog of MySQL or MariaDB, writes a topic",
    "a consumer task: sends topics on to another topic",
    "a consumer task: applies topics to MySQL or MariaDB",
    "a consumer task: applies topics to PostgreSQL",
    "a consumer task: applies topics to Oracle",
)
WAYS = dict(zip(ROUTES, WAY_TEXTS, strict=True))
# The questions of the third step; all others belong to the second.
LOADED_TO = frozenset(
    (
        "target",
        "target_topic",
        "target_database",
        "target_user",
        "source_schema",
        "target_schema",
    )
)
SENT_TO = frozenset({"servers", "topic"})


@dataclass(frozen=True, slots=True)
class Field:
    """A question as a form shows it. `wrong`: why its answer is not accepted."""

    question: Question
    value: str
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a form has sent. `go`: the button."""

    given: Answers
    at: str
    go: str

    @property
    def route(self) -> str:
        return self.given.get("route", "")


async def sent_by(request: Request) -> Sent:
    form = {}
    for key, each in (await request.form()).items():
        if isinstance(each, str):  # anything else would be an uploaded file
            form[key] = each
    at = form.get("at", WAY)
    if at not in STEPS:
        at = WAY
    return Sent(form, at, form.get("go", "next"))


@router.get(NEW_TASK)
def first(request: Request) -> Response:
    if not is_logged_in(request):
        # Logged in without the role: the page to log in would not help.
        if request.state.operator is not None:
            raise Refused(403, "only people with the role operate can create tasks")
        return RedirectResponse(f"/login?next={NEW_TASK}", 303)
    return _page(request, WAY, {})


@router.post(NEW_TASK)
def step(request: Request, sent: Annotated[Sent, Depends(sent_by)]) -> Response:
    """Goes one step on or back. At the last step it checks the text or stores it: never one with an
    error in it, and never over another task."""
    if sent.route not in ROUTES:
        if sent.at == WAY and sent.go == "next":
            return _page(request, WAY, {}, refusal="Choose a way.", status=422)
        return _page(request, WAY, {})
    answers, fields = answered(sent.route, sent.given)
    if sent.go == "back":
        return _page(request, _before(sent.at), answers, fields)
    # The steps before are checked again, as their answers come from the browser each time.
    for each in (FROM, TO):
        if STEPS.index(sent.at) < STEPS.index(each):
            # Nobody has answered these yet, so a wrong default is not marked as a mistake.
            unmarked = [replace(field, wrong="") for field in fields]
            return _page(request, each, answers, unmarked)
        asked = _asked_at(each, fields, sent.route)
        if any(field.wrong for field in asked):
            return _page(request, each, answers, fields, status=422)
    bus = bus_of(request)
    if sent.at != TEXT:
        return _text_page(request, answers, new_text(answers, f"{answers['id']}.properties"))
    text = plain(sent.given.get("text", ""))
    if sent.go in ("save", "start"):
        return _stored(request, bus, answers, text, sent.go == "start")
    return _text_page(request, answers, text, with_systems=sent.go == "systems")


def part_of(question: Question, route: str) -> str:
    """The step that a question belongs to."""
    asked_last = SENT_TO if route == TO_KAFKA else LOADED_TO
    return TO if question.name in asked_last else FROM


def _asked_at(step: str, fields: Sequence[Field], route: str) -> list[Field]:
    return [field for field in fields if part_of(field.question, route) == step]


def answered(route: str, given: Answers) -> tuple[dict[str, str], list[Field]]:
    """The answers, and the fields of all questions with what is wrong. The default replaces an
    answer that is missing, or empty where it must not be."""
    answers = {"route": route}
    fields = []
    for question in questions_of(route):
        value = given.get(question.name, "").strip()
        wrong = _wrong(question, route, value)
        if question.name not in given or (wrong and not value):
            value = question.default(answers) or ""
            wrong = _wrong(question, route, value)
        if question.name == "target_schema" and not answers["source_schema"]:
            wrong = ""  # without a source schema there is none to rename
        answers[question.name] = value
        fields.append(Field(question, value, wrong))
    return answers, fields


def _wrong(question: Question, route: str, value: str) -> str:
    value_type = question.type_for(route)
    try:
        value_type.read(value)
    except ValueError:
        return f"Expected {value_type.expected}; example: {value_type.example}"
    return ""


def _before(step: str) -> str:
    return STEPS[max(0, STEPS.index(step) - 1)]


def _page(
    request: Request,
    at: str,
    answers: Answers,
    fields: Sequence[Field] = (),
    refusal: str = "",
    status: int = 200,
    **more: object,
) -> Response:
    route = answers.get("route", "")
    variable = ""
    if route:
        variable = password_variable(route)
    values: Mapping[str, object] = {
        "at": at,
        "steps": [(each, TITLES[each]) for each in STEPS],
        "ways": WAYS,
        "answers": answers,
        "route": route,
        "fields": _asked_at(at, fields, route),
        "refusal": refusal,
        "variable": variable,
        **more,
    }
    return page(request, "new.html", values, section="/", status=status)


def _text_page(
    request: Request,
    answers: Answers,
    text: str,
    refusal: CdcError | Refused | None = None,
    with_systems: bool = False,
) -> Response:
    bus = bus_of(request)
    work = _written(bus, answers, text)
    status = 200
    sentence = work.refusal
    if isinstance(refusal, Refused):
        status, sentence = refusal.status, str(refusal)
    elif refusal is not None:
        status, sentence = status_of_error(refusal), str(refusal)
    results = None
    if with_systems and work.is_good:
        results = results_of(bus, work)
    return _page(
        request, TEXT, answers, status=status, work=work, refusal=sentence, results=results
    )


def _written(bus: WebBus, answers: Answers, text: str) -> Edited:
    """The text with its diagnostics. Its id is the one in the text."""
    # No stored text: there is nothing to compare with, and no secret to keep.
    work = edited(bus, answers["id"], text, "", {})
    if work.inspection is None or work.inspection.task is None:
        return work
    # Another id than in the answers is no mistake here: the text can be edited freely.
    return replace(work, task_id=work.inspection.task.task_id, refusal="")


def _stored(request: Request, bus: WebBus, answers: Answers, text: str, is_start: bool) -> Response:
    work = _written(bus, answers, text)
    who = operator_of(request)
    if not work.is_good:
        return _text_page(request, answers, text)
    try:
        # For a clear refusal early; storing itself never replaces a task.
        _check_id(request, bus, work.task_id)
        store_new(bus, work, who)
        if is_start:
            actions.start(bus, work.task_id, who)
    except (CdcError, Refused) as error:
        return _text_page(request, answers, text, error)
    shared(request).overviews.changed()
    done = "new-started" if is_start else "new"
    return RedirectResponse(task_address(work.task_id, f"?done={done}"), 303)


def _check_id(request: Request, bus: WebBus, task_id: str) -> None:
    """Raises Refused for a task that exists already, or that is not the person's."""
    person: Person = request.state.person
    if not person.may(Role.OPERATE, task_id):
        raise Refused(
            403,
            f"task {task_id} is not for {person.name}; see {person.setting}.tasks, and give it "
            "another taskId",
        )
    if task_id in TaskNodes(bus.client).ids():
        raise Refused(
            409,
            f"task {task_id} exists already; give this one another taskId, or edit that one",
        )


def store_new(bus: WebBus, work: Edited, who: str) -> None:
    """Stores the text of a new task. Raises ConfigError where somebody else has created it
    meanwhile, and for a secret that cannot be encrypted."""
    assert work.inspection is not None
    place = f"task {work.task_id}"
    task = work.inspection.ready(place).task
    texts = texts_of(work.inspection.entries, place, bus.settings.filling)
    put_tasks(bus.client, {work.task_id: dists_of(task, texts)}, False, who, HOW)

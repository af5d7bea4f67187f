"""The pages that find records of a topic and say who reads it. Cells are for those who may see
rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.services.row_view import utc
from cdcbus.ops.services.topic_lag import lag_rows
from cdcbus.ops.services.topics import access_of
from cdcbus.ops.web import actions
from cdcbus.ops.web.bus import bus_of
from cdcbus.ops.web.pages.rendering import page
from cdcbus.ops.web.pages.shared import shared
from cdcbus.ops.web.pages.topics import task_naming, without_login
from cdcbus.ops.web.records.groups import groups_of
from cdcbus.ops.web.records.search import Sought, look, moment, places_of, places_text
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.rowchange import Op
from cdcbus.tasks.control.uses import kafka_of
from cdcbus.tasks.zookeeper.position.history import positions_of
from cdcbus.tasks.zookeeper.position.znodes import position_path

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Asked:
    """The form, as its address has it. `at`: places, such as 0@120."""

    task: str = ""
    table: str = ""
    key: str = ""
    op: str = ""
    text: str = ""
    since: str = ""
    until: str = ""
    at: str = ""

    @property
    def is_empty(self) -> bool:
        return not (
            self.table or self.key or self.op or self.text or self.since or self.until or self.at
        )

    def query(self, at: str) -> str:
        fields = {**asdict(self), "at": at}
        return urlencode({name: value for name, value in fields.items() if value})


def _asked(
    task: str = "",
    table: str = "",
    key: str = "",
    op: str = "",
    text: str = "",
    since: str = "",
    until: str = "",
    at: str = "",
) -> Asked:
    return Asked(task, table.strip(), key.strip(), op, text, since, until, at.strip())


@router.get("/topics/{topic}/find")
def find_page(request: Request, topic: str, asked: Annotated[Asked, Depends(_asked)]) -> Response:
    """Searches only once something is asked for: a topic can be long."""
    if (refused := without_login(request)) is not None:
        return refused
    # Any task that names the topic says how to reach its cluster.
    task = actions.stored_task(bus_of(request), asked.task or task_naming(request, topic))
    sought = Sought(
        asked.table.split(),
        asked.key,
        asked.op,
        asked.text,
        moment(asked.since),
        moment(asked.until),
    )
    found = None
    if not asked.is_empty:
        found = look(access_of(task), topic, sought, places_of(asked.at))
    following = ""
    if found is not None and found.rest:
        following = asked.query(places_text(found.rest))
    values: dict[str, Any] = {
        "topic": topic,
        "asked": asked,
        "task": task.task_id,
        "ops": list(Op),
        "found": found,
        "next": following,
        "utc": utc,
    }
    return page(request, "find.html", values, section="/topics")


@router.get("/topics/{topic}/readers")
def readers_page(request: Request, topic: str, task: str = "") -> Response:
    """Offsets only, no cells."""
    bus = bus_of(request)
    task_id = task or task_naming(request, topic)
    access = access_of(actions.stored_task(bus, task_id))
    tasks = []
    away = ""
    for each in shared(request).tasks.all():
        if not isinstance(each, LoadTask) or topic not in each.source.topics:
            continue
        # Another cluster can have a topic of the same name.
        if access_of(each).servers != access.servers:
            continue
        # Without the secret nothing is asked: failed logins can lock a user.
        if lacks := shared(request).tasks.lacking(each, kafka_of):
            away = lacks
            continue
        stored = {}
        for swimlane, text in positions_of(bus.client, each.task_id).items():
            stored[position_path(each.task_id, swimlane)] = text or ""
        try:
            tasks += [row for row in lag_rows(each, stored) if row["topic"] == topic]
        except CdcError as error:
            away = str(error)
    values = {
        "topic": topic,
        "task": task_id,
        "tasks": tasks,
        "away": away,
        "groups": groups_of(access, topic),
    }
    return page(request, "readers.html", values, section="/topics")

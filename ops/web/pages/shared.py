"""What several pages share: the stored tasks, addresses, and the notes after an action."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from fastapi import Request

from cdcbus.ops.web.overview.stored_tasks import StoredTasks
from cdcbus.ops.web.overview.task_rows import Overviews
from cdcbus.ops.web.series.source import ChartSource, chart_source

DONE = {
    "start": "The start is ordered: a node takes the task as soon as one can.",
    "restart": "The restart is ordered.",
    "stop": "The stop is ordered: the task stores its position and ends.",
    "saved": "The text is stored. A running task keeps the text that it was started with; one that "
    "was started and has ended by an error starts with the new text within seconds.",
    "saved-restart": "The text is stored, and a restart is ordered.",
    "new": "The task is stored. It does not run before it is started.",
    "new-started": "The task is stored, and its start is ordered.",
    "moved": "The text names its node now. A running task is restarted there.",
    "reset": "The position is set.",
    "snapshot": "The order is stored: the task sees it within seconds, or when it starts.",
    "given-up": "The direct load is given up: its target tables hold some of the rows. The task "
    "starts once they are emptied and loaded again, or its position is set.",
    "undo": "The position is the previous one again.",
    "silence": "Alarms are silenced. What is still wrong at the end is sent then.",
    "told": "The silence is over.",
    "replay": "The records are appended to their partitions, and their dead letters are resolved.",
    "drop": "The dead letters are resolved.",
}


@dataclass(frozen=True, slots=True)
class Shared:
    """What all requests share: texts and overviews are read once for all of them."""

    tasks: StoredTasks
    overviews: Overviews
    charts: ChartSource


def shared(request: Request) -> Shared:
    state = request.app.state
    if not hasattr(state, "console"):
        tasks = StoredTasks(state.bus)
        charts = chart_source(state.bus.settings)
        state.console = Shared(tasks, Overviews(state.bus, tasks), charts)
    shared: Shared = state.console
    return shared


def task_address(task_id: str, more: str = "") -> str:
    return f"/tasks/{quote(task_id, safe='')}{more}"

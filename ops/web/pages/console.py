"""The pages for operators, each with its router. What they change goes through `actions`.

A page is served whole; where it says `live`, the same values are read again by its stream. Pages
hold no cell values but for the rows of a topic, which need the token where one is set.
"""

from __future__ import annotations

from fastapi import APIRouter

from cdcbus.ops.web.pages import (
    alarms,
    dead_letters,
    lineage,
    nodes,
    overview,
    task_page,
    topics,
)

router = APIRouter()
for page in (overview, task_page, nodes, alarms, topics, lineage, dead_letters):
    router.include_router(page.router)

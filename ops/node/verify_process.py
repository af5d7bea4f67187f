"""The process in which a node verifies a task: `cdcbus node verify ID`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from cdcbus.tasks.process_identity import NODE_VARIABLE, end_with_node, patiently
from cdcbus.tasks.verify.compare import Options
from cdcbus.tasks.verify.last import VerifyNodes, last_verify
from cdcbus.tasks.verify.run import may_belong, opened, verify
from cdcbus.tasks.zookeeper.znode import now

if TYPE_CHECKING:
    from cdcbus.tasks.control.bus_settings import BusSettings

NICENESS: Final = 10
# Differing rows are compared again for this long, as their changes may be on their way.
PATIENCE_SECONDS: Final = 60.0


def verify_task(task_id: str, throttle: int, bus: BusSettings) -> None:
    """Compares all tables of a task, and stores the result. Raises CdcError where the task cannot
    be compared at all; the node, which gets the sentence, stores that."""
    end_with_node()
    os.nice(NICENESS)  # whatever else runs here goes first
    with opened(task_id, bus, None) as both:
        nodes = VerifyNodes(both.zookeeper)
        begun = patiently(lambda: nodes.begun(task_id))
        begun_at = begun.stamp if begun else now()
        options = Options(patience=PATIENCE_SECONDS, throttle=throttle)
        reports = [report for report, _ in verify(both, options)]
        found = last_verify(
            reports,
            patiently(lambda: nodes.last(task_id)),
            begun_at,
            now(),
            f"node {os.environ.get(NODE_VARIABLE, '?')}",
            partial(may_belong, both),
        )
        patiently(lambda: nodes.put_last(task_id, found))

"""Calls of a librdkafka client that wait for brokers, so that a signal is seen meanwhile."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, Thread
from time import monotonic
from typing import Any, TypeVar
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException

from cdcbus.plugins.errors import BusUnavailable

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 0.1
# After which it is said what is waited for.
SLOW_SECONDS = 2.0
# How long an answer is still waited for once the task is to stop.
GRACE_SECONDS = 1.0
# How long the end of the process waits for answers.
END_SECONDS = 2.0
Answer = TypeVar("Answer")
_ASKING: WeakSet[Thread] = WeakSet()


def start_asking(ask: Callable[[], object], name: str) -> Thread:
    """Starts a thread that waits for brokers, and for which nobody need wait. Only the end of the
    process does, for END_SECONDS: an answer to an AdminClient that comes while the interpreter ends
    ends it with a segmentation fault."""
    thread = Thread(target=ask, name=name, daemon=True)
    _ASKING.add(thread)
    thread.start()
    return thread


@atexit.register
def _await_answers() -> None:
    deadline = monotonic() + END_SECONDS
    for thread in list(_ASKING):
        thread.join(max(0.0, deadline - monotonic()))


def asked(ask: Callable[[], Answer], servers: str, stop: Event) -> Answer:
    """What `ask` returns or raises; BusUnavailable GRACE_SECONDS after `stop` was set, while it
    goes on in a thread of its own: the client holds its caller, who would not see a signal."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            errors.append(error)

    asking = start_asking(run, "metadata")
    slow_at: float | None = monotonic() + SLOW_SECONDS
    while asking.is_alive() and not stop.is_set():
        if slow_at is not None and monotonic() > slow_at:
            slow_at = None
            LOG.warning("waiting for an answer of Kafka at %s", servers)
        asking.join(LOOK_SECONDS)
    # Where Kafka answers, a task that is stopped while it starts ends like any other.
    asking.join(GRACE_SECONDS)
    if errors:
        raise errors[0]
    if not answers:
        raise BusUnavailable(f"stopped before a Kafka broker at {servers} has answered")
    return answers[0]


def offset_in(answer: Future[Any]) -> Any:
    """What `AdminClient.list_offsets` answers about a partition. Raises KafkaException, also where
    it reports no error and no offset (-1001), as while the leader changes."""
    found = answer.result()
    if found.offset < 0:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return found

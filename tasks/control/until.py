"""`--until`: bounds a task, which ends on its own once everything before a point is delivered."""

from __future__ import annotations

from dataclasses import replace

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.producer.server.connection import need_server
from cdcbus.tasks.config.keys.stop_at import fetch_end, load_end


def bounded_by(task: FetchTask | LoadTask, word: str) -> FetchTask | LoadTask:
    """The task with this end, which overrides its `consumer.stopAt`. Raises ConfigError for a word
    that cannot be the end of a run of the task."""
    try:
        if isinstance(task, FetchTask):
            need_server(task.source)
            return replace(task, until=fetch_end(word))
        return replace(task, until=load_end(word, len(task.source.topics)))
    except ValueError as error:
        raise ConfigError(f"--until {error}") from error

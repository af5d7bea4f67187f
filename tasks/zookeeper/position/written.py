"""The record of what a task itself last wrote as its position, as JSON."""

from __future__ import annotations

from typing import Any, Final

import orjson

from cdcbus.plugins.contracts import Landmark, Mark, SentLog, Written
from cdcbus.plugins.errors import PositionError

_KNOWN: Final = frozenset(
    ("position", "isKept", "topicId", "last", "isCommitted", "target", "unread", "rules", "sent")
)


def written_to_json(written: Written) -> bytes:
    mark = written.mark
    fields: dict[str, Any] = {
        **written.others,
        "position": written.position,
        "isKept": mark.is_kept,
        "topicId": mark.topic_id,
    }
    # Left out where empty, as for targets that keep offsets themselves.
    if mark.last:
        fields["last"] = {str(number): landmark.kept for number, landmark in mark.last.items()}
    if not mark.is_committed:
        fields["isCommitted"] = False
    if mark.target:
        fields["target"] = mark.target
    if mark.unread:
        fields["unread"] = {str(number): offset for number, offset in mark.unread.items()}
    if mark.rules:
        fields["rules"] = dict(mark.rules)
    if mark.sent:
        fields["sent"] = {topic: [log.topic_id, log.records] for topic, log in mark.sent.items()}
    return orjson.dumps(fields)


def written_from_json(data: bytes, path: str) -> Written:
    """Reads the output of `written_to_json`, also of a newer cdcbus that says more. Raises
    PositionError."""
    try:
        fields = orjson.loads(data)
        last = {}
        for name, kept in fields.get("last", {}).items():
            landmark = Landmark.of(kept)
            if landmark:
                last[int(name)] = landmark
        # Earlier versions do not say it.
        is_committed = bool(fields.get("isCommitted", True))
        target = str(fields.get("target", ""))
        unread: dict[int, int | None] = {}
        for name, offset in fields.get("unread", {}).items():
            unread[int(name)] = None if offset is None else int(offset)
        rules = {str(name): str(digest) for name, digest in fields.get("rules", {}).items()}
        sent = {}
        for topic, (topic_id, records, *_) in fields.get("sent", {}).items():
            sent[str(topic)] = SentLog(str(topic_id), int(records))
        mark = Mark(
            bool(fields["isKept"]),
            str(fields["topicId"]),
            last,
            is_committed,
            target,
            unread,
            rules,
            sent,
        )
        others = {name: value for name, value in fields.items() if name not in _KNOWN}
        return Written(str(fields["position"]), mark, others)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise PositionError(
            f"{path} does not say what was written; it may be of a newer cdcbus: run that one. "
            "Otherwise delete it with zkCli: the position then counts as set by an operator"
        ) from error

"""Numbers and times as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from markupsafe import Markup

from cdcbus.tasks.zookeeper.znode import STAMP

UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
NOTHING = "–"
# Longer texts are folded after about HEAD characters.
LONGEST, HEAD = 400, 240


def count(value: float | None) -> str:
    """`1,234`, `0.25`, `12.3`; whole numbers without a point."""
    if value is None:
        return NOTHING
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:,.1f}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def duration(seconds: float | None) -> str:
    """`1.2 ms`, `0.25 s`, `42 s`, `3 min 5 s`, `2 h 3 min`, `5 d 1 h`: the two largest units."""
    if seconds is None:
        return NOTHING
    if 0 < seconds < 0.1:
        return f"{count(round(seconds * 1000, 1))} ms"
    if seconds < 1:
        return f"{count(round(seconds, 2))} s"
    if seconds < 60:
        return f"{count(round(seconds, 1))} s"
    for (size, unit), (smaller_size, smaller_unit) in pairwise(UNITS):
        if seconds >= size:
            rest = int(seconds % size) // smaller_size
            whole = f"{int(seconds // size)} {unit}"
            if not rest:
                return whole
            return f"{whole} {rest} {smaller_unit}"
    return NOTHING


def size(octets: float) -> str:
    """`512 B`, `1.5 KB`, `20 MB`: units of 1000."""
    for unit in ("B", "KB", "MB", "GB"):
        if octets < 1000:
            return f"{octets:.3g} {unit}"
        octets /= 1000
    return f"{octets:,.3g} TB"


def parted(text: str) -> tuple[str, str]:
    """The beginning of a long text, up to a blank or a comma, and the rest; of any other text all
    and nothing."""
    if len(text) <= LONGEST:
        return text, ""
    end = max(text.rfind(" ", 0, HEAD), text.rfind(",", 0, HEAD)) + 1 or HEAD
    return text[:end], text[end:]


def ago(stamp: str, now: float) -> Markup:
    """How long ago a time of a znode (UTC) was, with the time itself as a tooltip. A text that is
    not a time stays as it is."""
    try:
        then = datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError:
        return Markup("{}").format(stamp or NOTHING)
    seconds = now - then.timestamp()
    shown = "now" if seconds < 1 else f"{duration(int(seconds))} ago"
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        then.isoformat().replace("+00:00", "Z"), stamp, shown
    )


def moment(epoch_seconds: float) -> str:
    """A day and a time of day in UTC."""
    return f"{datetime.fromtimestamp(epoch_seconds, UTC):%m-%d %H:%M}"


def plural(number: int, one: str, many: str = "") -> str:
    """`1 task`, `2 tasks`. `many`: where it is not `one` with an s."""
    if number == 1:
        return f"1 {one}"
    return f"{number:,} {many or one + 's'}"

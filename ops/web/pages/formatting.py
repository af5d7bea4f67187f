"""Numbers and times as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup

STAMP = "%Y-%m-%d %H:%M:%S"
UNITS = ((86400, "d"), (3600, "h"), (60, "min"))
NOTHING = "–"


def count(value: float | None) -> str:
    """`1,234`, `0.25`, `12.3`; whole numbers without a point."""
    if value is None:
        return NOTHING
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}".rstrip("0").rstrip(".")


def duration(seconds: float | None) -> str:
    """`1.2 ms`, `0.25 s`, `42 s`, `3 min 5 s`, `2 h 3 min`, `5 d 1 h`: the two largest units."""
    if seconds is None:
        return NOTHING
    if 0 < seconds < 0.1:
        return f"{count(round(seconds * 1000, 1))} ms"
    if seconds < 60:
        return f"{count(round(seconds, 1 if seconds >= 1 else 2))} s"
    for number, (size, unit) in enumerate(UNITS):
        if seconds >= size:
            smaller, name = UNITS[number + 1] if number + 1 < len(UNITS) else (1, "s")
            rest = int(seconds % size) // smaller
            return f"{int(seconds // size)} {unit}" + (f" {rest} {name}" if rest else "")
    return NOTHING


def size(octets: float) -> str:
    """`512 B`, `1.5 KB`, `20 MB`: units of 1000."""
    for unit in ("B", "KB", "MB", "GB"):
        if octets < 1000:
            return f"{octets:.3g} {unit}"
        octets /= 1000
    return f"{octets:,.3g} TB"


def ago(stamp: str, now: float) -> Markup:
    """A time of ZooKeeper's nodes (UTC), relative, with the whole of it for those who point at
    it; as it is, where it is none."""
    try:
        then = datetime.strptime(stamp, STAMP).replace(tzinfo=UTC)
    except ValueError:
        return Markup("{}").format(stamp or NOTHING)
    seconds = now - then.timestamp()
    told = "now" if seconds < 1 else f"{duration(int(seconds))} ago"
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        then.isoformat().replace("+00:00", "Z"), stamp, told
    )


def moment(epoch_seconds: float) -> str:
    """A day and a time of it in UTC."""
    return f"{datetime.fromtimestamp(epoch_seconds, UTC):%m-%d %H:%M}"


def plural(number: int, one: str, many: str = "") -> str:
    """`1 task`, `2 tasks`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

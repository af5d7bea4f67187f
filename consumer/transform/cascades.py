"""Says what foreign keys with an action at the target mean for a task. Pure."""

from __future__ import annotations

from cdcbus.plugins.contracts import CascadingKey, TargetTable

KEYS_SHOWN = 3
REMEDY = (
    "If the source's binlog has the rows that its own foreign keys change (MySQL 9.6 and later), "
    "make these keys NO ACTION at the target. Otherwise (MariaDB, older MySQL) keep exactly the "
    "source's actions there, and give the tables a topic with one partition."
)


def describe_cascades(table: TargetTable) -> str:
    """What can happen to rows of a table in such keys, as the rest of a sentence that begins with
    the table; empty for a table in none."""
    if not table.cascades:
        return ""
    return (
        f"is in foreign keys with actions ({_listed(table)}): the target itself changes or deletes "
        "rows there. So the task applies changes of such tables in the source's order, which is "
        "slower. Batches of several partitions have no common order: with these, the target can "
        "change or delete rows that the source has kept, without an error. So it does where the "
        "key of a parent changes, which arrives as a delete and an insert: cdcbus verify finds that"
    )


def _listed(table: TargetTable) -> str:
    shown = list(map(_spelled, table.cascades[:KEYS_SHOWN]))
    more = len(table.cascades) - len(shown)
    if more:
        shown.append(f"and {more} more")
    return ", ".join(shown)


def _spelled(key: CascadingKey) -> str:
    actions = []
    if key.on_delete:
        actions.append(f"ON DELETE {key.on_delete}")
    if key.on_update:
        actions.append(f"ON UPDATE {key.on_update}")
    return f"{key.child} to {key.parent} {' '.join(actions)}"

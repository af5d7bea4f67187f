"""What the chunks of a direct load depend on besides their tables: keys of the task file, and the
target. A load is continued only with the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.transform.rule_digests import changed, digests
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.snapshots.direct import DirectLoad, direct_path

ANEW: Final = "empty the target tables, and start again with --anew"


def given(load: LoadTask) -> dict[str, str]:
    """A digest of the values of each key, or group of keys, that decides what is loaded, by their
    names: values can be secret, as the salt of a mask."""
    assert isinstance(load.target, JdbcTarget)
    values: dict[str, object] = {
        "consumer.source.topics, partition": (load.source.topics, load.source.partitions),
        "consumer.source.filter": load.regexes,
        "consumer.includes": (load.includes, load.include_patterns),
        "consumer.excludes": (load.excludes, load.exclude_patterns),
        "consumer.eventProcessor.className": load.processor,
        "mapper[i]": load.rules,
        "loader.zeroDate": load.target.zero_date,
        "loader.source.timeZone": load.target_zone,
    }
    return digests(values)


def refusal(load: LoadTask, found: DirectLoad, applied: Iterable[AppliedOffset] | None) -> str:
    """Why a load that was begun cannot be continued by this task file; empty if it can. `applied`:
    the target's offsets, None where it keeps none."""
    now = given(load)
    names = changed(found.given, now)
    if names:
        return (
            f"the direct load of task {load.task_id} was begun with another value of "
            f"{'; '.join(names)} than the task file has now, by which some of its rows are at "
            f"the target: restore it, or {ANEW}"
        )
    unknown = [name for name in found.given if name not in now]
    if unknown:
        return (
            f"the direct load of task {load.task_id} was begun by a newer cdcbus, which also goes "
            f"by {'; '.join(unknown)}: this one does not know that, and would load the other rows "
            f"without it. Continue with the newer one, or {ANEW}"
        )
    if applied is not None and not _is_same_target(found, applied):
        return (
            f"the target of task {load.task_id} is another one than its direct load was begun "
            "with, or was replaced: its table cdcbus_position lacks the load's offsets, and what "
            f"was loaded so far would be missing there. Restore loader.source.url, or {ANEW}"
        )
    return ""


def _is_same_target(found: DirectLoad, applied: Iterable[AppliedOffset]) -> bool:
    """Whether the target has the offsets that the load has stored there before its first chunk."""
    held = {each.topic_partition: each.next_offset for each in applied}
    return all(held.get(partition) == offset for partition, offset in found.offsets.items())


def check_progress(load: LoadTask, found: DirectLoad, known: Collection[TableId]) -> None:
    """Raises ConfigError where the progress of tables that the load was begun with is missing or
    cannot be read: these would be left out."""
    if found.tables and len(known) != found.tables:
        raise ConfigError(
            f"the direct load of task {load.task_id} was begun with {found.tables} tables, and "
            f"{direct_path(load.task_id)}/tables has usable progress of {len(known)}: that of "
            f"others was deleted or damaged, so what is left to load is not known; {ANEW}"
        )


def has_loaded(tables: Iterable[TableProgress]) -> bool:
    """Whether a target has chunks of a load, as far as its progress says."""
    return any(progress.chunks or progress.state is TableState.DONE for progress in tables)


def check_kept(task_id: str, noted: Mapping[int, int], there: Mapping[int, int]) -> None:
    """Raises ConfigError where the target lacks commits that were acknowledged."""
    if any(there.get(reader, 0) < count for reader, count in noted.items()):
        raise lost(task_id)


def lost(task_id: str) -> ConfigError:
    return ConfigError(
        f"the target of task {task_id} lacks rows that its direct load had committed, as table "
        "cdcbus_position there shows: it was restored to an earlier state, or a standby that "
        f"lagged behind has taken its place. Which rows are missing is not known: {ANEW}"
    )

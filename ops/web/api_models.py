"""The requests and answers of the API, as /api/openapi.json describes them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from cdcbus.ops.alarms.silence import LONGEST_SECONDS
from cdcbus.producer.snapshot.progress import TableState, WishKind


class Problem(BaseModel):
    error: str


class Progress(BaseModel):
    """The task's progress, as it reports it every few seconds; null: unknown."""

    # A task reports more than what is promised here.
    model_config = ConfigDict(extra="allow")
    at: str
    rows: int
    rows_per_second: float
    lag_records: int | None
    lag_seconds: float | None
    last_row: str


class Task(BaseModel):
    """`state`: NEW, STARTING, WORKING, RETRYING, STOPPED, DONE or ERROR. `reason`: a sentence, or
    empty."""

    task_id: str
    state: str
    reason: str
    node_id: str
    is_by_hand: bool
    since: str
    restarts: int
    open_letters: int | None
    progress: Progress | None


class NotEqual(BaseModel):
    """A target table that was not equal. `since`: when it was first found to differ, or empty."""

    table: str
    result: str
    differences: int
    since: str
    error: str


class LastVerify(BaseModel):
    """`result`: equal, changing, different, behind or error. `results`: the number of tables by
    result. `error`: why nothing could be compared, or empty. `left_out`: target columns that were
    not compared. `of_others`: rows of the target that were not counted, as they may be of other
    tasks."""

    result: str
    begun: str
    ended: str
    by: str
    seconds: float
    rows: int
    results: dict[str, int]
    tables: list[NotEqual]
    error: str
    left_out: list[str]
    of_others: int


class TaskDetail(Task):
    """`swimlanes`: topics, or the database of a fetch task. `locks`: the process that runs each.
    `verify`: the result of its last verify; null before the first one."""

    swimlanes: list[str]
    locks: dict[str, str]
    positions: dict[str, str | None]
    verify: LastVerify | None = None


class Change(BaseModel):
    """A position that was set; `before` is null where none was stored."""

    at: str
    by: str
    how: str
    before: str | None
    after: str


class Position(BaseModel):
    """`position`: as ZooKeeper holds it; null where none is stored."""

    swimlane: str
    position: str | None
    history: list[Change]


class ResetTarget(BaseModel):
    """Where to continue. `to`: earliest, latest, a time, an offset or -N; in a binlog also FILE,
    FILE:POS or a GTID set. `dry_run`: only show what it would mean. `live`: also while the task
    runs."""

    # A misspelled member is refused rather than ignored.
    model_config = ConfigDict(extra="forbid")
    to: str = Field(
        min_length=1, max_length=10_000, examples=["earliest", "2024-05-01T03:04:05", "-500"]
    )
    topic: str | None = None
    # Kafka's partitions are numbers of 32 bits.
    partition: int | None = Field(None, ge=0, lt=2**31)
    # By default nothing is set.
    dry_run: bool = True
    live: bool = False


class NewPosition(BaseModel):
    """`means`: sentences that compare it with the stored one."""

    swimlane: str
    position: str
    means: list[str]


class Reset(BaseModel):
    is_set: bool
    positions: list[NewPosition]


class Undo(BaseModel):
    """`at`, `after`: of the change to undo, as `history` lists it; refused if it is not the last
    one."""

    model_config = ConfigDict(extra="forbid")
    swimlane: str
    live: bool = False
    at: str | None = None
    after: str | None = None


class TableSnapshot(BaseModel):
    """`table`: SCHEMA.TABLE. `estimated_rows`: the server's estimate. `seconds_left`: null where
    unknown. `reason`: a sentence on why it failed."""

    table: str
    state: TableState
    rows: int
    estimated_rows: int
    bytes: int
    rows_per_second: float
    seconds_left: int | None
    where: str
    reason: str


class SnapshotWish(BaseModel):
    """No `tables`: all. `where`: for a start, the condition that selects rows, in SQL. `force`:
    also where the rows of a table without a key would come twice, or the progress of a direct load
    is lost."""

    model_config = ConfigDict(extra="forbid")
    tables: list[str] = Field([], max_length=1000, examples=[["shop.orders"]])
    where: str = ""
    force: bool = False


class OpenWish(BaseModel):
    kind: WishKind
    tables: list[str]
    where: str
    confirmed: bool


class Snapshots(BaseModel):
    """`is_direct`: a direct load, past Kafka. `why`: why that load keeps the task from starting;
    empty where it does not. `wishes`: orders that the task has not seen yet."""

    is_direct: bool
    why: str
    tables: list[TableSnapshot]
    wishes: list[OpenWish]


class SnapshotOrder(BaseModel):
    """`is_running`: the task sees it within seconds; else when it starts. `gives_up`: it ended a
    direct load."""

    is_running: bool
    sentence: str
    gives_up: bool


class Node(BaseModel):
    """`state`: working, draining, drained or away. `tasks`: swimlanes by task. `version`: of
    cdcbus; empty for one that does not say it."""

    node_id: str
    state: str
    host: str
    address: str
    process_id: int
    work_limit: int
    used: int
    health: str
    health_reason: str
    tasks: dict[str, list[str]]
    silent_seconds: float | None
    environment: str
    version: str


class Limit(BaseModel):
    model_config = ConfigDict(extra="forbid")
    swimlanes: int = Field(ge=0, lt=2**31)


class Topic(BaseModel):
    """A topic that tasks name: who writes it and who reads it. `unreadable`: tasks whose text
    cannot be read here, with the reason."""

    topic: str
    written_by: list[str]
    read_by: list[str]


class Topics(BaseModel):
    topics: list[Topic]
    unreadable: dict[str, str]


class Letter(BaseModel):
    """A dead letter; rows are not shown."""

    record: str
    time: str
    reason: str


class Letters(BaseModel):
    """Which dead letters: `records` as they are listed, or `all`."""

    model_config = ConfigDict(extra="forbid")
    records: list[str] = Field([], max_length=10_000)
    all: bool = False


class Replayed(Letters):
    """`force`: also where a row would go back in time."""

    force: bool = False


class Resolved(BaseModel):
    count: int


class Raised(BaseModel):
    """A raised alarm. `since`: first observed (UTC). `times`: how many notices were sent. `by`: the
    channel that accepted the last one."""

    rule: str
    sentence: str
    since: str
    times: int
    by: str


class Notice(BaseModel):
    """`kind`: raised, repeated or cleared. `by`: the channel that has accepted it, or `nobody
    yet`."""

    at: str
    kind: str
    rule: str
    sentence: str
    by: str


class Alarms(BaseModel):
    """The alarms of a task; notices the newest first. `silent_until`: until when nothing is sent
    (UTC), empty where notices are sent."""

    task_id: str
    raised: list[Raised]
    notices: list[Notice]
    silent_until: str
    silent_by: str


class Silence(BaseModel):
    """A silence from now on; 0 ends it."""

    model_config = ConfigDict(extra="forbid")
    seconds: int = Field(ge=0, le=LONGEST_SECONDS)


class Noted(BaseModel):
    """An action: who did it, from where. `failed`: why it failed, or empty."""

    at: str
    by: str
    what: str
    on: str
    failed: str

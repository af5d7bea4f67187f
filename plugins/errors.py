"""The errors of cdcbus, and what each means to an operator.

    CdcError                     the message is a sentence: what failed, where, what to do
    ├── ConfigError              a task file or a setting is wrong or incomplete
    ├── PositionError            a stored position cannot be used
    │   ├── NoPosition           nothing says where to start
    │   ├── TargetReplaced       the target has no offset of a task that has committed there
    │   ├── TopicRemade          the topic is another one of the same name
    │   ├── LogRefilled          the topic was cut off at its end and filled again
    │   ├── PositionUnavailable  ZooKeeper is unreachable at the moment: try again
    │   │   └── QuotaUsedUp      a quota keeps ZooKeeper from writing one path: try again
    │   └── PositionConflict     somebody else has set the node meanwhile: read it again
    ├── SourceError              the database read from
    │   ├── SourceUnavailable    unreachable at the moment: try again
    │   ├── SourceMisconfigured  reachable, but cannot be read completely
    │   │   └── SourceRefused    this server, or its user's rights: another address may work
    │   ├── PositionLost         the log no longer holds the position
    │   ├── UnusableHistory      a stored schema history that is damaged
    │   └── UnreadableEvent      an event that cannot be decoded without guessing
    ├── BusError                 Kafka
    │   ├── BusUnavailable       unreachable at the moment: try again
    │   └── BusRejected          Kafka refuses: unknown topic, no rights, record too large
    │       └── RecordsLost      it lacks records that it had acknowledged
    ├── SparkUnavailable         its cluster is unavailable, or executors were lost: try again
    ├── SparkEnded               the JVM of Spark was killed, or has crashed
    ├── DataError                a record or row
    │   ├── ConversionError      bytes that the converter cannot read
    │   └── UnmappedColumn       the target lacks a table or column that the source has
    └── TargetError              the database written to
        ├── TargetUnavailable    unreachable at the moment, deadlock, lock timeout: try again
        ├── OffsetConflict       another process has applied records of the partition meanwhile, or
                                 the target was restored: read positions again
        ├── TargetMisconfigured  wrong password, missing rights, an engine without transactions
        │   └── UnsafeOffsetTable    the target's table of offsets has no transactions
        ├── TargetTableUnfit     the table's definition does not fit what is written: try again, it
                                 may be altered
        └── TargetRejected       the target refuses these rows
            └── RowConflict      another row blocks it: a unique value that it holds, a foreign key

`cdcbus.plugins.error_policy` is the one table of what a task does on each (retry, stop). Messages
never hold cell values or secrets. All errors are picklable, as Spark sends them between processes.
"""

import errno
from typing import Final

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""What a disk without room, or a user's share of it, raises as the number of an OSError."""


CHECK_SERVER: Final = "; check its address, and that it runs"
CHECK_BROKERS: Final = "; check the address, and that a broker runs there"
"""The ends of sentences about a server, and about brokers, that cannot be reached."""


class CdcError(Exception):
    """Any error whose text is meant for an operator."""


class ConfigError(CdcError):
    """A task file or a setting is wrong; the text names file, line and key where they are known."""


class PositionError(CdcError):
    """A stored position cannot be used; the text names its ZooKeeper path."""


class PositionUnusable(PositionError):
    """Somebody has stored a position that no task can start from, or not this one."""


class NoPosition(PositionError):
    """Neither ZooKeeper nor the task file says where to start."""


class TargetReplaced(PositionError):
    """The target has no offset of a partition, although ZooKeeper says that the task has committed
    one there."""


class TopicRemade(PositionError):
    """The topic was deleted and created again since the position was stored, so its offsets mean
    other records."""


class LogRefilled(PositionError):
    """The topic's log was cut off before the position and filled again: records before it have
    never been read."""


class PositionUnavailable(PositionError):
    """ZooKeeper is unreachable at the moment."""


class QuotaUsedUp(PositionUnavailable):
    """A quota of it, or of a znode above it, keeps ZooKeeper from writing a path; it answers about
    others."""


class PositionConflict(PositionError):
    """The node was set by somebody else since it was last read; the edit wins."""


class SourceError(CdcError):
    """An error of the source database."""


class SourceUnavailable(SourceError):
    """The source is unreachable at the moment."""


class SourceMisconfigured(SourceError):
    """The source answers, but its settings or grants do not allow complete reading."""


class SourceRefused(SourceMisconfigured):
    """The server at this address refuses the login, or its settings or grants do not allow
    reading; another address may work."""


class PositionLost(SourceError):
    """The binlog no longer holds the wanted position."""


class SourceBehind(PositionLost):
    """The server has not yet executed transactions that were read from another one, or has lost
    them."""


class UnusableHistory(SourceError):
    """A stored schema history that cannot be used; the text names its ZooKeeper path."""


class UnreadableEvent(SourceError):
    """A binlog event that cannot be decoded without guessing; the position stays before it."""


class BusError(CdcError):
    """An error of Kafka."""


class BusUnavailable(BusError):
    """Kafka is unreachable at the moment."""


class BusRejected(BusError):
    """Kafka refuses the request, and would refuse it again."""


class RecordsLost(BusRejected):
    """Kafka lacks records of `topic` that it had acknowledged."""

    def __init__(self, sentence: str, topic: str = "") -> None:
        super().__init__(sentence)
        self.topic = topic


class SparkUnavailable(CdcError):
    """Spark's cluster grants no application at the moment; or executors, or their Python workers,
    were lost as often as Spark retries."""


class SparkEnded(CdcError):
    """The JVM of Spark has ended under a task that used it: the task needs a new process."""


class DataError(CdcError):
    """An error of one record or row."""


class ConversionError(DataError):
    """The converter cannot read a record's bytes."""


class UnmappedColumn(DataError):
    """The target has no table or column for what the source sends."""


class TargetError(CdcError):
    """An error of the target database."""


class TargetUnavailable(TargetError):
    """The target cannot take the batch at the moment; the same batch may succeed later."""


class OffsetConflict(TargetError):
    """The applied offset in the target is not the one last seen: another process applies the
    same partition, or the target was restored."""


class TargetMisconfigured(TargetError):
    """The target answers, but login or rights are missing."""


class UnsafeOffsetTable(TargetMisconfigured):
    """The target's table of offsets is in an engine without transactions."""


class TargetTableUnfit(TargetError):
    """The definition of the target table does not fit what is written, whatever the rows hold: one
    of its columns, types or keys."""


class TargetRejected(TargetError):
    """The target refuses the rows, and would refuse them again."""


class RowConflict(TargetRejected):
    """Another row blocks a change: one that holds its unique value, or that a foreign key requires.
    Changes of that row can unblock it."""

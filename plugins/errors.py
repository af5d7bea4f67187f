"""The errors of cdcbus, and what each means to an operator.

    CdcError                     the message is a sentence: what, where, what to do
    ├── ConfigError              a task file or a setting is wrong or incomplete
    ├── PositionError            a stored position cannot be used
    │   ├── NoPosition           nothing says where to start
    │   ├── TargetReplaced       the target knows nothing of a task that has committed there
    │   ├── TopicRemade          the topic is another one of the same name
    │   ├── LogRefilled          the topic was cut off at its end and filled again
    │   ├── PositionUnavailable  ZooKeeper is not reachable just now: try again
    │   └── PositionConflict     somebody else has set the node meanwhile: read it again
    ├── SourceError              the database read from
    │   ├── SourceUnavailable    not reachable just now: try again
    │   ├── SourceMisconfigured  reachable, but cannot be read completely
    │   │   └── SourceRefused    this server, or its user's rights: another address may do
    │   ├── PositionLost         the log no longer holds the position
    │   ├── UnusableHistory      a stored schema history that is damaged
    │   └── UnreadableEvent      an event that cannot be decoded without guessing
    ├── BusError                 Kafka
    │   ├── BusUnavailable       not reachable just now: try again
    │   └── BusRejected          Kafka refuses: unknown topic, no rights, record too large
    ├── SparkUnavailable         its cluster is away, or executors were lost: try again
    ├── SparkEnded               the JVM of Spark was killed, or has crashed
    ├── DataError                a record or row
    │   ├── ConversionError      bytes that the converter cannot read
    │   └── UnmappedColumn       the target lacks a table or column that the source has
    └── TargetError              the database written to
        ├── TargetUnavailable    not reachable just now, deadlock, lock timeout: try again
        ├── OffsetConflict       somebody else has applied records of the partition meanwhile: read
                                 positions again
        ├── TargetMisconfigured  wrong password, missing rights, an engine without transactions
        │   └── UnsafeOffsetTable    the target's table of offsets has no transactions
        ├── TargetTableUnfit     the table's definition does not take what is written: try again, it
                                 may be altered
        └── TargetRejected       the target refuses these rows
            └── RowConflict      another row forbids it: a unique value that it holds, a foreign key

What a task does on each (retry, stop) is one table: `cdcbus.plugins.error_policy`. Messages never
hold cell values or secrets. All are picklable, as Spark sends them between processes.
"""


class CdcError(Exception):
    """Any error whose text is meant for an operator."""


class ConfigError(CdcError):
    """A task file or a setting is wrong; the text names file, line and key where they are known."""


class PositionError(CdcError):
    """A stored position cannot be used; the text names its ZooKeeper path."""


class NoPosition(PositionError):
    """Neither ZooKeeper nor the task file says where to start."""


class TargetReplaced(PositionError):
    """The target has no offset of a partition that, as ZooKeeper says, the task has committed
    there."""


class TopicRemade(PositionError):
    """The topic was deleted and created again since the position was stored: its offsets mean other
    records."""


class LogRefilled(PositionError):
    """The topic's log was cut off before the position and filled again: records before it have
    never been read."""


class PositionUnavailable(PositionError):
    """ZooKeeper cannot be reached just now."""


class PositionConflict(PositionError):
    """The node was set by somebody else since it was last read; the edit wins."""


class SourceError(CdcError):
    """Something about the source database."""


class SourceUnavailable(SourceError):
    """The source cannot be reached just now."""


class SourceMisconfigured(SourceError):
    """The source answers, but its settings or grants do not allow complete reading."""


class SourceRefused(SourceMisconfigured):
    """The server at this address refuses the login, or its settings or grants do not allow
    reading; another address may be better."""


class PositionLost(SourceError):
    """The binlog no longer holds the wanted position."""


class SourceBehind(PositionLost):
    """The server has not executed yet what was read of another one, or has lost it."""


class UnusableHistory(SourceError):
    """A stored schema history that cannot be used; the text names its ZooKeeper path."""


class UnreadableEvent(SourceError):
    """A binlog event that cannot be decoded without guessing; the position stays before it."""


class BusError(CdcError):
    """Something about Kafka."""


class BusUnavailable(BusError):
    """Kafka cannot be reached just now."""


class BusRejected(BusError):
    """Kafka refuses the request, and would refuse it again."""


class SparkUnavailable(CdcError):
    """Spark's cluster gives no application just now; or executors, or their Python workers, were
    lost as often as Spark tries."""


class SparkEnded(CdcError):
    """The JVM of Spark has ended under a task that used it: the task needs a new process."""


class DataError(CdcError):
    """Something about one record or row."""


class ConversionError(DataError):
    """The converter cannot read a record's bytes."""


class UnmappedColumn(DataError):
    """The target has no table or column for what the source sends."""


class TargetError(CdcError):
    """Something about the target database."""


class TargetUnavailable(TargetError):
    """The target cannot take the batch just now; the same batch may succeed later."""


class OffsetConflict(TargetError):
    """The applied offset in the target is not the one last seen: another process applies the
    same partition."""


class TargetMisconfigured(TargetError):
    """The target answers, but login or rights are missing."""


class UnsafeOffsetTable(TargetMisconfigured):
    """The target's table of offsets is in an engine without transactions."""


class TargetTableUnfit(TargetError):
    """The definition of the target table does not take what is written, whatever the rows hold:
    a column, a type, a key of it."""


class TargetRejected(TargetError):
    """The target refuses the rows, and would refuse them again."""


class RowConflict(TargetRejected):
    """Another row forbids it: one that holds its unique value, or that a foreign key asks for.
    Changes of that row can end that."""

from cdcbus.plugins.kafka.record_key import Record

INTERFACE: int
INTEGER: int
DOUBLE: int
DECIMAL: int
YEAR: int
DATE: int
TIME: int
DATETIME: int
TIMESTAMP: int
ENUM: int
UTF8: int
BYTES: int
READ: int
FIRST: int
SECOND: int
OLD: int
ROW: int
IS_LAST: int

class Plan:
    def __init__(
        self,
        cells: tuple[tuple[object, ...], ...],
        first: tuple[int, ...],
        second: tuple[int, ...],
        is_update: bool,
        same: tuple[int, ...],
        key: tuple[int, ...],
        key_text: bytes,
        placeholders: tuple[int, ...],
        constants: bytes,
        /,
    ) -> None: ...
    def write(
        self,
        body: bytes,
        at: int,
        row: int,
        is_last: bool,
        texts: tuple[str, ...],
        records: list[Record],
        /,
    ) -> tuple[int, int]: ...
    def join(
        self,
        body: bytes,
        at: int,
        row: int,
        is_last: bool,
        texts: tuple[str, ...],
        partitions: int,
        most_rows: int,
        most_bytes: int,
        /,
    ) -> tuple[list[Record], int] | None: ...

"""The messages of canal's protobuf form, by the schema that is compiled from `canal.proto` when
cdcbus is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Protocol

from cdcbus.plugins.errors import ConfigError

FILE: Final = resources.files(__package__) / "canal.desc"
_PACKAGE = "cdcbus.canal"


class Packet(Protocol):
    version: int
    type: int
    compression: int
    body: bytes


class Messages(Protocol):
    messages: Sequence[bytes]


class Header(Protocol):
    execute_time: int
    schema_name: str
    table_name: str
    gtid: str


class Entry(Protocol):
    header: Header
    entry_type: int
    store_value: bytes


class Field(Protocol):
    sql_type: int
    name: str
    is_key: bool
    is_null: bool
    value: str
    mysql_type: str


class RowData(Protocol):
    before_columns: Sequence[Field]
    after_columns: Sequence[Field]


class RowEvent(Protocol):
    event_type: int
    is_ddl: bool
    row_datas: Sequence[RowData]


@dataclass(frozen=True, slots=True)
class CanalSchema:
    """A function that reads each message from its bytes and raises `unreadable`, and canal's words
    for the numbers of its types."""

    unreadable: tuple[type[Exception], ...]
    packet: Callable[[bytes], Packet]
    messages: Callable[[bytes], Messages]
    entry: Callable[[bytes], Entry]
    row_change: Callable[[bytes], RowEvent]
    packet_types: Mapping[int, str]
    compressions: Mapping[int, str]
    entry_types: Mapping[int, str]
    event_types: Mapping[int, str]


@cache
def canal_schema() -> CanalSchema:
    """The schema, loaded once. Raises ConfigError where it was not compiled, and without the
    package protobuf, as on an executor of Spark."""
    try:
        data = FILE.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"canal's protobuf form cannot be read: {FILE.name}, which is made of canal.proto when "
            "cdcbus is built, is not beside it; install cdcbus again (in a source tree: make "
            "install)"
        ) from error
    try:
        # Imported here, as it takes a tenth of a second, which other commands should not wait for.
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    except ImportError as error:
        raise ConfigError(
            "canal's protobuf form cannot be read: the Python package protobuf is not installed "
            "on this machine"
        ) from error

    # A pool of its own, as other packages of the process may define the same names.
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())

    def reader(name: str) -> Callable[[bytes], Any]:
        found = pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
        return message_factory.GetMessageClass(found).FromString

    def words(name: str) -> dict[int, str]:
        found = pool.FindEnumTypeByName(f"{_PACKAGE}.{name}")
        return {value.number: value.name for value in found.values}

    return CanalSchema(
        # The latter where protobuf was built without its C extension.
        unreadable=(message.DecodeError, UnicodeDecodeError),
        packet=reader("Packet"),
        messages=reader("Messages"),
        entry=reader("Entry"),
        row_change=reader("RowChange"),
        packet_types=words("Packet.Type"),
        compressions=words("Packet.Compression"),
        entry_types=words("Entry.Type"),
        event_types=words("RowChange.Type"),
    )

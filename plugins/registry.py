"""Converters, loaders and sources by their names in task files: the built-in ones, then those that
other packages add by entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import Final

from cdcbus.plugins.added.entry_points import (
    CHANNELS,
    CONVERTERS,
    LOADERS,
    SOURCES,
    Group,
    is_added,
    make_added,
    with_added,
)
from cdcbus.plugins.added.sources import RecordSource
from cdcbus.plugins.contracts import Converter, JdbcTarget, Loader
from cdcbus.plugins.converters.auto import Auto
from cdcbus.plugins.converters.canal_row import CanalCompat, CanalRow
from cdcbus.plugins.converters.debezium_json import DebeziumJson
from cdcbus.plugins.converters.maxwell_json import MaxwellJson
from cdcbus.plugins.converters.ogg_json import OggJson, PorterCompat
from cdcbus.plugins.converters.porter_json import PorterJson
from cdcbus.plugins.converters.protobuf.canal_protobuf import CanalProtobuf
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.time_zone import read_zone

_CONVERTERS: Final[dict[str, Callable[[], Converter]]] = {
    "oggJson": OggJson,
    "canalRow": CanalRow,
    "porterCompat": PorterCompat,
    "canalCompat": CanalCompat,
    "canalProtobuf": CanalProtobuf,
    "debeziumJson": DebeziumJson,
    "maxwellJson": MaxwellJson,
    "porterJson": PorterJson,
    "auto": Auto,
}
_ZONED: Final[dict[str, Callable[[tzinfo], Converter]]] = {
    "oggJson": OggJson,
    "canalRow": CanalRow,
    "porterCompat": PorterCompat,
    "canalCompat": CanalCompat,
    "canalProtobuf": CanalProtobuf,
    "auto": Auto,
}
# Names only: these are loops of their own, not a `RecordSource`.
SOURCE_NAMES: Final = ("CanalFetch", "KafkaFetch")
CHANNEL_NAMES: Final = ("mail", "webhook", "exec", "log")
_UNTYPED: Final = frozenset(("oggJson", "porterCompat", "maxwellJson", "porterJson"))
# Names only: `plugins.loaders` has the classes, and imports SQLAlchemy, which would slow down
# reading a task file.
_LOADERS: Final = ("KAFKA_SYNC", "JdbcBatch", "JdbcSingle", "JdbcMultiThread", "JdbcSqlDebug")


def converter_names() -> tuple[str, ...]:
    """The names that `make_converter` knows, the built-in ones first."""
    return with_added(tuple(_CONVERTERS), CONVERTERS)


def is_added_converter(name: str) -> bool:
    """Whether a converter is from another package."""
    return name not in _CONVERTERS and is_added(name, CONVERTERS)


def has_types(name: str) -> bool:
    """Whether a converter's records can carry the types of their columns; assumed for converters of
    other packages."""
    return name not in _UNTYPED


def takes_zone(name: str) -> bool:
    """Whether a converter reads records whose times name no zone."""
    return name in _ZONED


def make_converter(name: str, time_zone: str = "") -> Converter:
    """A converter by name. `time_zone`: the zone of times that name none; empty: UTC. Raises
    ConfigError for an unknown name, listing the known ones, and for a converter of another package
    that cannot be made."""
    if time_zone and name in _ZONED:
        return _ZONED[name](zone_of(time_zone, "consumer.source.timeZone"))
    if name in _CONVERTERS:
        return _CONVERTERS[name]()
    converter: Converter = make_added(CONVERTERS, name, converter_names())
    return converter


def make_forwarding_converter(name: str) -> Converter:
    """As `make_converter`, to write rows that were read from other records: one whose form cannot
    hold what those did not know refuses it. A source's own rows are written as the source would."""
    if name == "canalCompat":
        return CanalCompat(refuses_unknown=True)
    return make_converter(name)


def zone_of(name: str, key: str) -> tzinfo:
    """The zone that a key of the task file names. Raises ConfigError where this machine does not
    know it."""
    try:
        return read_zone(name)
    except ValueError as error:
        raise ConfigError(
            f"time zone {name} is not known on this machine: correct {key}, or install the Python "
            "package tzdata here"
        ) from error


def loader_names() -> tuple[str, ...]:
    """The loaders that a task file can name, the built-in ones first."""
    return with_added(_LOADERS, LOADERS)


def is_added_loader(name: str) -> bool:
    """Whether a loader is from another package."""
    return name not in _LOADERS and is_added(name, LOADERS)


def make_added_loader(name: str, target: JdbcTarget) -> Loader:
    """A loader of another package, made with the target that the task file describes. Raises
    ConfigError as `make_converter` does."""
    loader: Loader = make_added(LOADERS, name, loader_names(), target)
    return loader


def source_names() -> tuple[str, ...]:
    """The names that a task file can use as `consumer.consumerName`, the built-in ones first."""
    return with_added(SOURCE_NAMES, SOURCES)


def is_added_source(name: str) -> bool:
    """Whether a source is from another package."""
    return name not in SOURCE_NAMES and is_added(name, SOURCES)


def make_source(name: str, options: Mapping[str, str]) -> RecordSource:
    """A source of another package, made with its settings. Raises ConfigError as
    `make_converter` does."""
    source: RecordSource = make_added(SOURCES, name, source_names(), options)
    return source


def built_in_names(group: Group) -> tuple[str, ...]:
    """The built-in names of a group."""
    return {
        CONVERTERS: tuple(_CONVERTERS),
        LOADERS: _LOADERS,
        SOURCES: SOURCE_NAMES,
        CHANNELS: CHANNEL_NAMES,
    }.get(group, ())

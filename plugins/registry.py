"""Converters by the name a task file uses: the built-in ones, then those that other packages add
by entry point."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.auto import Auto
from cdcbus.plugins.converters.canal_row import CanalCompat, CanalRow
from cdcbus.plugins.converters.debezium_json import DebeziumJson
from cdcbus.plugins.converters.maxwell_json import MaxwellJson
from cdcbus.plugins.converters.ogg_json import OggJson, PorterCompat
from cdcbus.plugins.converters.porter_json import PorterJson
from cdcbus.plugins.errors import ConfigError

CONVERTER_GROUP = "cdcbus.converters"
_BUILT_IN: dict[str, Callable[[], Converter]] = {
    "oggJson": OggJson,
    "canalRow": CanalRow,
    "porterCompat": PorterCompat,
    "canalCompat": CanalCompat,
    "debeziumJson": DebeziumJson,
    "maxwellJson": MaxwellJson,
    "porterJson": PorterJson,
    "auto": Auto,
}


def converter_names() -> tuple[str, ...]:
    """The names that `make_converter` knows, the built-in ones first."""
    return (*_BUILT_IN, *sorted(entry_points(group=CONVERTER_GROUP).names - _BUILT_IN.keys()))


def make_converter(name: str) -> Converter:
    """A converter by name. Raises ConfigError listing the known names."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    added = entry_points(group=CONVERTER_GROUP)
    if name in added.names:
        converter: Converter = added[name].load()()
        return converter
    raise ConfigError(f"no converter is called {name}; known are {', '.join(converter_names())}")

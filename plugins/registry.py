"""Converters by the name a task file uses: the built-in ones, then those that other packages add by entry point."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import ConfigError

CONVERTER_GROUP = "cdcbus.converters"
_BUILT_IN: dict[str, Callable[[], Converter]] = {"canalRow": CanalRow, "oggJson": OggJson}


def make_converter(name: str) -> Converter:
    """A converter by name. Raises ConfigError listing the known names."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    added = entry_points(group=CONVERTER_GROUP)
    if name in added.names:
        converter: Converter = added[name].load()()
        return converter
    raise ConfigError(f"no converter is called {name}; known are {', '.join(sorted({*_BUILT_IN, *added.names}))}")

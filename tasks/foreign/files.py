"""Reads files of canal, Debezium and Maxwell: finds their tool, and makes task files from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties
import orjson

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.foreign import canal, debezium, maxwell
from cdcbus.tasks.foreign.conversion import Conversion
from cdcbus.tasks.porter.dist_json import properties_text

INSTANCE = "canal.instance.master.address"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one task, from one or several files."""

    tool: str
    file: Path
    entries: Mapping[str, str]

    def converted(self) -> Conversion:
        """The settings as a task. Raises ConfigError if the tool reads another kind of database."""
        if self.tool == canal.TOOL:
            return canal.from_canal(self.entries, self.entries[canal.DESTINATION])
        if self.tool == debezium.TOOL:
            return debezium.from_debezium(self.entries)
        return maxwell.from_maxwell(self.entries)


def foreign_settings(files: Sequence[Path]) -> list[Settings]:
    """The settings of each task in these files; empty where no file is another tool's. Raises
    ConfigError for a mixture."""
    read: dict[Path, dict[str, str]] = {}
    tools: dict[Path, str] = {}
    for file in files:
        read[file] = _read(file)
        tools[file] = _tool(read[file])
    # No file of another tool: the caller then reads them as task files.
    if not any(tools.values()):
        return []
    if len(set(tools.values())) > 1:
        own = ", ".join(str(file) for file, tool in tools.items() if not tool) or "them"
        raise ConfigError(
            f"these files are not all of one tool; import {own} with a separate command"
        )
    if canal.TOOL in tools.values():
        return _instances(read)
    settings = []
    for file, entries in read.items():
        # Debezium Server has the connector's settings under a prefix.
        if tools[file] == debezium.TOOL:
            entries = debezium.connector_of(entries)
        settings.append(Settings(tools[file], file, entries))
    return settings


def task_text(made: Conversion, tool: str) -> str:
    """The task file, with remarks about everything that could not be carried over."""
    lines = [f"# Made of settings of {tool} by cdcbus task import."]
    for finding in (*made.found.of(Severity.ERROR), *made.found.of(Severity.WARNING)):
        # Settings of another tool have no lines here to name.
        lines.append(f"# {finding.severity}: {finding.located('')}")
    remarks = "\n".join(lines)
    return f"{remarks}\n\n{properties_text(made.finished())}"


def _instances(read: Mapping[Path, Mapping[str, str]]) -> list[Settings]:
    """The settings of each canal instance. The server file applies to all instances, and is
    overridden by theirs."""
    instances: dict[Path, Mapping[str, str]] = {}
    shared: dict[str, str] = {}
    for file, entries in read.items():
        if entries.get(INSTANCE, "").strip():
            instances[file] = entries
        else:
            shared |= entries
    if not instances:
        raise ConfigError(
            f"no file has {INSTANCE}: canal.properties alone does not make a task; name the "
            "instance.properties, too"
        )
    found = []
    for file, entries in instances.items():
        destination = _destination(file, {**shared, **entries}, len(instances))
        merged = {**shared, **entries, canal.DESTINATION: destination}
        # It names the instances of the server, not this one.
        merged.pop("canal.destinations", None)
        found.append(Settings(canal.TOOL, file, merged))
    return found


def _destination(file: Path, entries: Mapping[str, str], count: int) -> str:
    """The instance's name: canal names an instance after its folder. A file that was copied out of
    it is the only instance that the server file names."""
    names = list(map(str.strip, entries.get("canal.destinations", "").split(",")))
    folder = file.resolve().parent.name
    # Several instances must have different names, even if the server file names none of them.
    if folder in names or (count > 1 and folder):
        return folder
    if len(names) == 1 and names[0]:
        return names[0]
    return folder


def _tool(entries: Mapping[str, str]) -> str:
    if debezium.is_debezium(entries):
        return debezium.TOOL
    if canal.is_canal(entries):
        return canal.TOOL
    if maxwell.is_maxwell(entries):
        return maxwell.TOOL
    return ""


def _read(file: Path) -> dict[str, str]:
    """The settings of a file; empty for another form, which other code reports then."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read: {error.strerror}; check its name and rights"
        ) from error
    except UnicodeDecodeError:
        return {}
    if file.suffix == ".json" or text.lstrip()[:1] == "{":
        return _connector(text)
    try:
        pairs = javaproperties.loads(text)
    except ValueError:
        return {}
    return {key.strip(): value.strip() for key, value in pairs.items()}


def _connector(text: str) -> dict[str, str]:
    """Kafka Connect's JSON: a name and its config, or the config alone."""
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        found = {"name": found.get("name", ""), **found["config"]}
    if not isinstance(found, dict) or "connector.class" not in found:
        return {}
    settings: dict[str, str] = {}
    for key, value in found.items():
        if isinstance(value, str):
            settings[key] = value
        # Numbers and flags as a properties file would have them.
        elif value is not None:
            settings[key] = orjson.dumps(value).decode()
    return settings

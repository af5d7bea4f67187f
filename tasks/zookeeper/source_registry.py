"""Named sources in ZooKeeper: `/datas/datesource/<code>`, spelled as porter spells it, with
porter's JSON {code, nodeId, using, source}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity, printable
from cdcbus.tasks.config.named_sources import (
    IN_ZOOKEEPER,
    NamedSource,
    find_source_key,
    unknown_keys,
)
from cdcbus.tasks.config.parser import Entry, is_inline_secret
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import connected
from cdcbus.tasks.zookeeper.znode import answer, get_children, reported


def source_path(name: str) -> str:
    return f"{IN_ZOOKEEPER}/{name}"


class SourceNodes:
    """The named sources in ZooKeeper. Usable while its client is. All calls raise
    PositionUnavailable or PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def names(self) -> list[str]:
        """The names of all sources, sorted."""
        return get_children(self._client, IN_ZOOKEEPER)

    def get(self, name: str) -> NamedSource | None:
        """The source, or None. Raises ConfigError when its znode does not hold one, or it is
        switched off."""
        path = source_path(name)
        with reported(path):
            try:
                data: bytes = answer(self._client.get_async(path))[0]
            except NoNodeError:
                return None
        return source_in(name, data)

    def put(self, name: str, pairs: Mapping[str, str], is_replacing: bool, by: str) -> None:
        """Stores a source; the audit records who did. Raises ConfigError when it exists and
        `is_replacing` is not set."""
        path = source_path(name)
        # The form that porter reads; cdcbus itself needs no nodeId.
        data = orjson.dumps({"code": name, "nodeId": None, "using": True, "source": dict(pairs)})
        how = "source add --replace" if is_replacing else "source add"
        with audited(self._client, by, how, f"source {name}"), reported(path):
            try:
                # Create first: whether it exists is decided by ZooKeeper, not by an earlier look.
                answer(self._client.create_async(path, data, makepath=True))
            except NodeExistsError as error:
                if not is_replacing:
                    raise ConfigError(f"{path} exists already; --replace overwrites it") from error
                answer(self._client.set_async(path, data))


@contextmanager
def source_nodes(address: str, auth: str | None) -> Iterator[SourceNodes]:
    """A connection to the sources in ZooKeeper."""
    with connected(address, auth=auth) as client:
        yield SourceNodes(client)


def source_in(name: str, data: bytes) -> NamedSource:
    """The source in a znode's data. Raises ConfigError where they hold none, or it is switched
    off."""
    path = source_path(name)
    try:
        read = orjson.loads(data)
    except orjson.JSONDecodeError:
        # Not chained: the error's text may quote the znode.
        read = None
    if not isinstance(read, dict) or not isinstance(read.get("source"), dict):
        raise ConfigError(
            f"{path} does not hold a source; expected JSON; example: "
            f'{{"code":"{name}","source":{{"url":"jdbc:mysql://h/db"}}}}'
        )
    if read.get("using") is False:
        raise ConfigError(f"source {name} is switched off: {path} says using=false")
    # No line numbers, as the keys come from JSON and not from a file.
    entries = {}
    for key, value in read["source"].items():
        if value is not None:
            entries[key] = Entry(key, "", _text(value), 0)
    return NamedSource(name, f"ZooKeeper {path}", entries, tuple(_diagnostics(entries)))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _diagnostics(entries: Mapping[str, Entry]) -> Iterator[Diagnostic]:
    yield from unknown_keys(entries)
    for key, entry in entries.items():
        if is_inline_secret(key, find_source_key(key), entry.written):
            sentence = (
                "the secret is in plain text in ZooKeeper, where anyone who reads the znode sees "
                "it; store ${env:NAME} or ${file:/path} instead"
            )
            yield Diagnostic(Severity.WARNING, 0, printable(key), sentence)

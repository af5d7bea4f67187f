"""Makes clients of Kafka, and makes those again whose certificates have been renewed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cdcbus.plugins.errors import BusUnavailable, CdcError
from cdcbus.plugins.files.file_times import are_written_since, note_read
from cdcbus.plugins.kafka.client.certificates import written_at
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals, not_made

LOG = logging.getLogger(__name__)
Client = TypeVar("Client")


def make_client(kind: Callable[[dict[str, Any]], Client], options: dict[str, Any]) -> Client:
    """A Consumer, a Producer or an AdminClient. Raises ConfigError for settings that it does not
    know, BusUnavailable where a former client has read the files of certificates that it cannot
    use by now, as before their key is renewed, too."""
    times = written_at(options)
    try:
        client = kind(options)
    except KafkaException as error:
        # As they are by now: they may have been written while they were read.
        if are_written_since(written_at(options)):
            raise BusUnavailable(
                "no new Kafka client can be made of the certificates that were written since the "
                f"last one (kafka.ssl.*): {error.args[0].str()}; check that certificate and key "
                "belong together"
            ) from error
        raise not_made(error) from error
    note_read(times)
    if isinstance(refusals := options.get("error_cb"), Refusals):
        refusals.files = times
    return client


class CurrentAdmin:
    """A client that asks, with the certificates that are on disk: it is made at its first use, and
    again when they have been renewed. Thread-safe."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._client: AdminClient | None = None
        self._certificates: dict[str, int] = {}
        self._is_warned = False
        self._making = Lock()

    def client(self, *, is_new: bool = False) -> AdminClient:
        """The client; `is_new`: one with metadata of its own. While none can be made of renewed
        certificates, as before their key is renewed, too, the former client goes on; there is none
        that `is_new` then. Raises ConfigError before the first one, BusUnavailable."""
        with self._making:
            certificates = written_at(self._options)
            former = self._client
            if former is not None and not is_new and certificates == self._certificates:
                return former
            options = {**self._options, "logger": LIBRARY_LOG}
            try:
                self._client = client = make_client(AdminClient, options)
            except CdcError as error:
                if former is None:
                    raise
                if is_new:
                    raise BusUnavailable(str(error)) from error
                self._warn(error)
                return former
            self._certificates, self._is_warned = certificates, False
            return client

    def _warn(self, error: CdcError) -> None:
        if self._is_warned:
            return
        self._is_warned = True
        LOG.warning(
            "topics at %s are looked at with the certificates of before, as the files that were "
            "written since cannot be used: %s; check that certificate and key belong together",
            self._options["bootstrap.servers"],
            error,
        )

"""Checks that the server of a named source answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, Refusals
from cdcbus.plugins.kafka.client.options import Client
from cdcbus.tasks.config.diagnostics import Diagnostics, Severity
from cdcbus.tasks.config.fetch_task import source_config
from cdcbus.tasks.config.kafka_options import kafka_options
from cdcbus.tasks.config.load_task import jdbc_target
from cdcbus.tasks.config.named_sources import CONSUMER, LOADER, NamedSource
from cdcbus.tasks.config.parser import Entry, filled
from cdcbus.tasks.config.settings import Settings

ANSWER_SECONDS = 10.0


def check_source(source: NamedSource, environ: Mapping[str, str]) -> None:
    """Connects as a task would, and disconnects. Raises a CdcError without secrets for whatever
    fails."""
    if not source.kind:
        raise ConfigError(
            f"source {source.name} leads nowhere: expected url (JDBC), address (CANAL) or servers "
            f"(Kafka) in {source.where}"
        )
    diagnostics = Diagnostics()
    prefix = CONSUMER if source.kind == "CANAL" else LOADER
    settings = _settings(source, prefix, environ, diagnostics)
    checks = {"JDBC": _check_jdbc, "CANAL": _check_canal, "KAFKA": _check_kafka}
    checks[source.kind](source, settings, diagnostics)


def _settings(
    source: NamedSource, prefix: str, environ: Mapping[str, str], diagnostics: Diagnostics
) -> Settings:
    entries: dict[str, Entry] = {}
    for key, entry in source.entries.items():
        placed = replace(entry, key=prefix + key)
        entries[placed.key] = filled(placed, environ, diagnostics, Severity.ERROR)
    return Settings(entries, diagnostics)


def _check_jdbc(source: NamedSource, settings: Settings, diagnostics: Diagnostics) -> None:
    from cdcbus.plugins.loaders import open_target

    target = jdbc_target("", settings)
    _refuse_errors(source, diagnostics)
    database = open_target(target)
    try:
        with database.reported("login"), database.engine.connect():
            pass
    finally:
        database.engine.dispose()


def _check_canal(source: NamedSource, settings: Settings, diagnostics: Diagnostics) -> None:
    from cdcbus.producer.server.connection import connect

    config = source_config(settings)
    _refuse_errors(source, diagnostics)
    connect(config).close()


def _check_kafka(source: NamedSource, settings: Settings, diagnostics: Diagnostics) -> None:
    servers = settings.servers(f"{LOADER}servers")
    # No fixed options, unlike in a task: nothing is written or read here.
    options = kafka_options(settings, {}, f"{LOADER}kafka.").of(Client.LOOK_UP)
    refusals = Refusals()
    _refuse_errors(source, diagnostics)
    # librdkafka reports why a broker refuses only here, not in the error of the call.
    own: dict[str, Any] = {
        "bootstrap.servers": servers,
        "logger": LIBRARY_LOG,
        "error_cb": refusals,
    }
    try:
        client = AdminClient({**options, **own})
    except KafkaException as error:
        raise ConfigError(
            f"source {source.name}: settings of the Kafka client: {error.args[0].str()}"
        ) from error
    with client:
        try:
            client.list_topics(timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise refusals.unanswered(client, servers, error) from error


def _refuse_errors(source: NamedSource, diagnostics: Diagnostics) -> None:
    errors = diagnostics.of(Severity.ERROR)
    if errors:
        raise ConfigError("; ".join(diagnostic.located(source.where) for diagnostic in errors))

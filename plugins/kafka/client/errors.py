"""Collects the reasons why a librdkafka client gets no answer: brokers report them by callback, not
to the call that waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdcbus.plugins.errors import (
    CHECK_BROKERS,
    BusError,
    BusRejected,
    BusUnavailable,
    CdcError,
    ConfigError,
    RecordsLost,
)
from cdcbus.plugins.files.file_times import written_at

CHECK_LOGIN: Final = (
    "check the task's settings kafka.security.protocol, kafka.sasl.* and kafka.ssl.*"
)


class LibraryLog:
    """The `logger` of each client: drops what librdkafka logs, by default to stderr; what matters
    arrives as errors or by callback.

    It is called while a fatal error waits to be raised, which would be lost where an exception is
    caught meanwhile, as within `logging`.
    """

    def log(self, level: int, *words: object) -> None:
        """Does nothing."""


LIBRARY_LOG: Final = LibraryLog()
PATIENCE_ENDS: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)
# How a broker ends a TLS handshake that it refuses. A broker that stops does the same, so these are
# not final.
CUT: Final = ("Disconnected", "connection reset", "unexpected eof")
# librdkafka reports a handshake that fails in its first step as a transport error.
NOT_TRUSTED: Final = "certificate verify failed"

# Errors that pass on their own, as while a broker restarts.
PASSING: Final = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.LEADER_NOT_AVAILABLE,
}
# By its time, or without a key: brokers do not say which where a batch has several records.
INVALID: Final = {
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,
}
# Brokers' error codes -> the ACLs that the user lacks.
RIGHTS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Describe on the topic, and Read or Write, as the task "
    "reads or writes it",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the task's group, consumer.source.group or "
    "else cdcbus-TASKID",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Describe and Write on the topic; of brokers before "
    "2.8 also IdempotentWrite on the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Describe and Write on the transactional id",
}


def fatal_error(raised: KafkaException | SystemError) -> KafkaError | None:
    """The fatal error of a producer, raised where its callbacks are served. None if it is lost, as
    where a callback that was served then caught an exception of its own.

    A callback that was being served is then said to have failed: a SystemError with the cause. One
    that has failed by itself is raised again.
    """
    cause = raised.__cause__ if isinstance(raised, SystemError) else raised
    if cause is None:
        return None
    if not isinstance(cause, KafkaException):
        raise raised
    reason: KafkaError = cause.args[0]
    return reason


def not_made(error: KafkaException) -> CdcError:
    """The error for a client that could not be made: ConfigError for its settings, BusUnavailable
    in a process that may have no more threads."""
    reason = error.args[0]
    if reason.code() == KafkaError._CRIT_SYS_RESOURCE:
        return BusUnavailable(
            f"no Kafka client can be made: {reason.str()}; check the limits of threads and memory "
            "of this process"
        )
    return ConfigError(f"settings of the Kafka client (kafka.*): {reason.str()}")


def drop_unsent(producer: Producer) -> None:
    """Drops the records that wait in a producer; returns when none of them can be sent anymore.

    confluent-kafka 2.16 takes `blocking` for its opposite (`test_dead_letters.py` shows it): by
    default it returns at once, and drops records that are produced afterwards, too.
    """
    producer.purge(blocking=False)


class Refusals:
    """The `error_cb` of a client: remembers the last reason."""

    def __init__(self) -> None:
        # The latest reason why a broker did not answer, and its code; empty and 0 at first.
        self.reason = ""
        self.code = 0
        # Whether waiting is useless.
        self.is_final = False
        # The files of certificates that the client has read, and when they had been written.
        self.files: Mapping[str, int] = {}

    def __call__(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            return
        # A fatal error follows the missing right that caused it, and says less.
        is_consequence = error.code() == KafkaError._FATAL and self.code in RIGHTS
        if not is_consequence:
            self.reason = error.str()
            self.code = error.code()
        is_refusal = error.code() in PATIENCE_ENDS or NOT_TRUSTED in self.reason
        self.is_final = is_refusal and not any(word in self.reason for word in CUT)

    @property
    def are_files_renewed(self) -> bool:
        """Whether certificates were written since the client has read them."""
        return written_at(self.files) != self.files

    def unanswered(self, client: Any, servers: str, error: KafkaException) -> BusError:
        """The error for a call of the client that got no answer: BusRejected if a login, a
        certificate or a right is missing, else BusUnavailable, also where a new client has other
        certificates."""
        failed = error.args[0]
        # Triggers callbacks with reasons that have arrived meanwhile. A consumer gets its group's
        # as a message.
        try:
            message = client.poll(0)
        except (KafkaException, SystemError) as raised:
            if (fatal := fatal_error(raised)) is not None:
                self(fatal)
        else:
            if isinstance(message, Message) and (reason_of_group := message.error()) is not None:
                self(reason_of_group)
        if failed.code() in RIGHTS:
            return denied(servers, failed.str(), failed.code())
        if self.code in RIGHTS:
            return denied(servers, self.reason, self.code)
        reason = self.reason or failed.str()
        if self.is_final:
            refusal = f"Kafka at {servers} cannot be logged in to: {reason}"
            if self.are_files_renewed:
                return BusUnavailable(
                    f"{refusal}; a new client takes the certificates that were renewed meanwhile"
                )
            return BusRejected(f"{refusal}; {CHECK_LOGIN}")
        return BusUnavailable(f"no Kafka broker answers at {servers}: {reason}{CHECK_BROKERS}")


def denied(servers: str, reason: str, code: int) -> BusRejected:
    """The error for a user of Kafka who lacks a right; `code` is one of RIGHTS."""
    return BusRejected(
        f"Kafka at {servers} does not let this user: {reason.rstrip('.')}; give it the ACL: "
        f"{RIGHTS[code]}"
    )


def topic_error(servers: str, topic: str, error: KafkaError) -> BusError | None:
    """The error for what brokers answer about a topic in place of its partitions: BusRejected for a
    right that the user lacks, BusUnavailable for what passes; None for anything else, as a topic
    that does not exist."""
    if error.code() in RIGHTS:
        return denied(servers, f"topic {topic}: {error.str()}", error.code())
    if error.code() in PASSING:
        return BusUnavailable(f"Kafka topic {topic} at {servers}: {error.str()}")
    return None


def invalid(servers: str, topic: str, code: int) -> BusUnavailable:
    """The error for a record that brokers do not accept as it is; `code` is one of INVALID. It
    passes on its own where records have waited long, as they are sent again with a new time."""
    no_key = ""
    if code != KafkaError.INVALID_TIMESTAMP:
        no_key = ", or it has no key, which a compacted topic needs"
    return BusUnavailable(
        f"Kafka topic {topic} at {servers} does not take a record: its time is further from the "
        "broker's clock than message.timestamp.after.max.ms or message.timestamp.before.max.ms "
        f"allows (before Kafka 3.6 message.timestamp.difference.max.ms){no_key}; correct the clock "
        "of this machine, or these settings of the topic"
    )


def are_records_lost(error: KafkaError) -> bool:
    """Whether brokers lack records that they had acknowledged: they count those of each client, as
    long as a log still holds one of them. The client has the same code for records that it dropped
    itself, as behind one that was too large."""
    is_out_of_order = error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    return is_out_of_order and "skipped sequence numbers" not in error.str()


def records_lost(servers: str, topic: str, reason: str) -> RecordsLost:
    """The error for these. `reason`: what shows it."""
    return RecordsLost(
        f"Kafka at {servers} lacks records of topic {topic} that it had acknowledged ({reason}), "
        "as after a restore from a backup, or where a leader was elected that lacked them "
        "(unclean.leader.election.enable). To send them again, set the position to a place before "
        "that: cdcbus offset reset ID --to PLACE; to go on without them, set the one that is "
        "stored. A task with --positions has both in that file: edit position there, or remove "
        "sent from written",
        topic,
    )

"""Why a librdkafka client gets no answer: the brokers' reasons come apart from the call that
waits for them."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable

PATIENCE_ENDS: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)
# of a TLS handshake; a broker that stops does so as well
CUT: Final = ("Disconnected", "connection reset", "unexpected eof")
# a handshake that fails in its first step is a transport error to librdkafka
NOT_TRUSTED: Final = "certificate verify failed"


# ACLs of Kafka that a user lacks, by what brokers answer then.
PASSING: Final = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.LEADER_NOT_AVAILABLE,
}
"""Answers that end by themselves, as while a broker starts again."""
RIGHTS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Describe on the topic, and Read or Write, as the task "
    "reads or writes it",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Read on the task's group, consumer.source.group or "
    "else cdcbus-TASKID",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Describe and Write on the topic; of brokers before "
    "2.8 also IdempotentWrite on the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Describe and Write on the transactional id",
}


class Refusals:
    """The `error_cb` of a client. `reason`: why a broker could last not be talked to; empty at
    first. `code`: of that."""

    def __init__(self) -> None:
        self.reason, self.code = "", 0
        self._is_final = False

    def __call__(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            return
        if error.code() != KafkaError._FATAL or self.code not in RIGHTS:  # it follows its reason
            self.reason, self.code = error.str(), error.code()
        is_refusal = error.code() in PATIENCE_ENDS or NOT_TRUSTED in self.reason
        self._is_final = is_refusal and not any(word in self.reason for word in CUT)

    def unanswered(self, client: Any, servers: str, error: KafkaException) -> BusError:
        """What to raise for a call of the client that got no answer: BusRejected where a login,
        a certificate or a right is missing, else BusUnavailable."""
        come = client.poll(0)  # reasons that have come meanwhile
        failed = error.args[0]
        if isinstance(come, Message) and (told := come.error()) is not None:
            self(told)  # a consumer is told of its group so
        if failed.code() in RIGHTS:
            return denied(servers, failed.str(), failed.code())
        if self.code in RIGHTS:
            return denied(servers, self.reason, self.code)
        reason = self.reason or failed.str()
        if self._is_final:
            remedy = (
                "check the task's settings kafka.security.protocol, kafka.sasl.* and kafka.ssl.*"
            )
            return BusRejected(f"Kafka at {servers} cannot be logged in to: {reason}; {remedy}")
        return BusUnavailable(f"no Kafka broker answers at {servers}: {reason}")


def denied(servers: str, reason: str, code: int) -> BusRejected:
    """What to raise where a user of Kafka lacks a right; `code` is one of RIGHTS."""
    return BusRejected(
        f"Kafka at {servers} does not let this user: {reason.rstrip('.')}; give it the ACL: "
        f"{RIGHTS[code]}"
    )

"""Why a librdkafka client gets no answer: the brokers' reasons come apart from the call that
waits for them."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable

PATIENCE_ENDS: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)
# of a TLS handshake; a broker that stops does so as well
CUT: Final = ("Disconnected", "connection reset", "unexpected eof")
# a handshake that fails in its first step is a transport error to librdkafka
NOT_TRUSTED: Final = "certificate verify failed"


class Refusals:
    """The `error_cb` of a client. `reason`: why a broker could last not be talked to; empty at
    first."""

    def __init__(self) -> None:
        self.reason = ""
        self._is_final = False

    def __call__(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            return
        self.reason = error.str()
        is_refusal = error.code() in PATIENCE_ENDS or NOT_TRUSTED in self.reason
        self._is_final = is_refusal and not any(word in self.reason for word in CUT)

    def unanswered(self, client: Any, servers: str, error: KafkaException) -> BusError:
        """What to raise for a call of the client that got no answer: BusRejected where a login
        or certificate is refused, else BusUnavailable."""
        client.poll(0)  # reasons that have come meanwhile
        reason = self.reason or error.args[0].str()
        if self._is_final:
            remedy = (
                "check the task's settings kafka.security.protocol, kafka.sasl.* and kafka.ssl.*"
            )
            return BusRejected(f"Kafka at {servers} cannot be logged in to: {reason}; {remedy}")
        return BusUnavailable(f"no Kafka broker answers at {servers}: {reason}")

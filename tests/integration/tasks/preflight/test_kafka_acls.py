"""A Kafka with SASL_SSL, SCRAM and ACLs: what each client needs, and which sentence each missing
right has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from cdcbus.consumer.config import DeadLetterConfig
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.consumer.records.dead_letter_topic import DeadLetterTopic
from cdcbus.consumer.records.dead_letters import DeadLetter, OpenDeadLetter
from cdcbus.ops.services.dead_letters import FetchLetter, FetchLetters, LargeRow
from cdcbus.ops.stack.addresses import HOST, Plan, free_port
from cdcbus.ops.stack.java_servers import KAFKA
from cdcbus.plugins.errors import BusRejected
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import TableDdl
from cdcbus.producer.publish.publisher import KafkaPublisher
from tests.integration.tasks.preflight.test_kafka_login import ROW, fetch_task, load_task
from tests.support.servers.secure_servers import Authority, open_folder, place_of, running
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
PASSWORD = "pass word"
ANSWER_SECONDS = 5.0
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class GuardedKafka:
    """One broker: `plain` is the administrator's way in; at `guarded` user scram may do what it was
    allowed."""

    plain: str
    guarded: str
    ours: Authority
    theirs: Authority
    admin: AdminClient

    def allow(self, *rights: tuple[ResourceType, str, AclOperation]) -> None:
        """These, and nothing else."""
        anything: Any = None
        everything = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            "User:scram",
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for done in self.admin.delete_acls([everything]).values():
            done.result(30)
        bindings = []
        for kind, name, operation in rights:
            binding = AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                "User:scram",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            bindings.append(binding)
        if bindings:
            for made in self.admin.create_acls(bindings).values():
                made.result(30)


@pytest.fixture(scope="module")
def broker() -> Iterator[GuardedKafka]:
    with ExitStack() as open_:
        folder = open_.enter_context(open_folder())
        ours, theirs, plan = (
            Authority.new(folder, "ours"),
            Authority.new(folder, "theirs"),
            Plan.new(),
        )
        guarded = f"{HOST}:{free_port(plan.ports.values())}"
        kafka, controller = plan.address("kafka"), plan.address("kafka-controller")
        settings = [
            f"listeners=PLAINTEXT://{kafka},SASL_SSL://{guarded},CONTROLLER://{controller}",
            f"advertised.listeners=PLAINTEXT://{kafka},SASL_SSL://{guarded}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=PLAINTEXT",
            "sasl.enabled.mechanisms=SCRAM-SHA-512",
            f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={SCRAM} required;",
            f"ssl.keystore.type=PEM\nssl.keystore.location={ours.issue('server')}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
            "connection.failed.authentication.delay.ms=0",
        ]
        open_.enter_context(running(KAFKA, place_of(KAFKA, folder, plan), settings=settings))
        admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        create_topics(admin, NewTopic("guarded", 2, 1))
        user = UserScramCredentialUpsertion(
            "scram", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        admin.alter_user_scram_credentials([user])["scram"].result(30)
        yield GuardedKafka(kafka, guarded, ours, theirs, admin)


LACKS_WRITE = r"authorization failed\)?; give it the ACL: Describe and Write on the topic"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
DESCRIBE, READ, WRITE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE


def login(
    broker: GuardedKafka, ca: Authority | None = None, password: str = PASSWORD
) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "scram",
        "sasl.password": password,
        "ssl.ca.location": str((ca or broker.ours).ca),
    }


def publish(broker: GuardedKafka, options: dict[str, str], topic: str = "guarded") -> None:
    """What a fetch task does with a broker before and while it sends."""
    config = fetch_task(broker.guarded, options, topic).publish
    with KafkaPublisher(config, make_converter("canalRow"), Event()) as publisher:
        publisher.send_changes([ROW])
        publisher.flush()


def look(broker: GuardedKafka, options: dict[str, str]) -> None:
    """What a consumer task asks before it reads."""
    with TopicLogs(load_task(broker.guarded, options), ANSWER_SECONDS) as logs:
        place = TopicPartition("guarded", logs.partitions("guarded")[0])
        logs.bounds(place)
        logs.newest([place], 1)
        logs.committed(place)


@pytest.mark.parametrize(
    ("rights", "sentence"),
    [
        ([], "topic guarded: .*Topic authorization failed; give it the ACL: Describe on the topic"),
        ([(TOPIC, "guarded", DESCRIBE)], "authorization failed; give it the ACL: Describe and Wri"),
        ([(TOPIC, "guarded", READ)], "authorization failed; give it the ACL: Describe and Write"),
        ([(TOPIC, "guarded", WRITE)], None),
    ],
    ids=["none", "describe", "read", "write"],
)
def test_a_fetch_task_says_which_right_it_lacks(
    broker: GuardedKafka,
    rights: list[tuple[ResourceType, str, AclOperation]],
    sentence: str | None,
) -> None:
    broker.allow(*rights)
    if sentence is None:
        publish(broker, login(broker))
        return
    with pytest.raises(BusRejected, match=sentence) as refused:
        publish(broker, login(broker))
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("kind", ["ALTER", "TRUNCATE"])
def test_a_statement_is_not_lost_where_a_right_was_taken_away(
    broker: GuardedKafka, kind: str
) -> None:
    """Brokers then answer with no partitions: it would be sent to each of none."""
    broker.allow((TOPIC, "guarded", WRITE))
    config = fetch_task(broker.guarded, login(broker)).publish
    with KafkaPublisher(config, make_converter("canalRow"), Event()) as publisher:
        publisher.send_changes([ROW])
        publisher.flush()
        broker.allow()
        with pytest.raises(
            BusRejected, match=r"topic guarded: .* give it the ACL: Describe on the"
        ):
            publisher.send([TableDdl(ROW.table.id, kind, f"{kind} TABLE orders")])


@pytest.mark.parametrize("rights", [DESCRIBE, READ])
def test_a_client_that_is_refused_before_it_has_a_record_says_the_same(
    broker: GuardedKafka, rights: AclOperation
) -> None:
    """The brokers can refuse the client while it waits for its first row."""
    broker.allow((TOPIC, "guarded", rights))
    config = fetch_task(broker.guarded, login(broker)).publish
    with KafkaPublisher(config, make_converter("canalRow"), Event()) as publisher:
        wait_until(lambda: is_unusable(publisher), "the brokers to refuse the client")
        with pytest.raises(BusRejected, match="authorization failed; give it the ACL: Describe an"):
            publisher.send_changes([ROW])


def is_unusable(publisher: KafkaPublisher) -> bool:
    """Whether the client has met a fatal error, of which its callbacks are not told yet."""
    try:
        publisher.client.produce("guarded", b"{}")
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError._FATAL)
    return False


@pytest.mark.parametrize(
    ("rights", "sentence"),
    [
        ([], "topic guarded: .*Topic authorization failed; give it the ACL: Describe on the topic"),
        ([(TOPIC, "guarded", DESCRIBE)], "Group authorization failed; give it the ACL: Read on "),
        ([(TOPIC, "guarded", READ)], "Group authorization failed; give it the ACL: Read on the ta"),
        ([(TOPIC, "guarded", READ), (GROUP, "g", READ)], None),
    ],
    ids=["none", "describe", "no-group", "all"],
)
def test_a_consumer_task_says_which_right_it_lacks(
    broker: GuardedKafka,
    rights: list[tuple[ResourceType, str, AclOperation]],
    sentence: str | None,
) -> None:
    broker.allow(*rights)
    if sentence is None:
        look(broker, login(broker))
        return
    with pytest.raises(BusRejected, match=sentence):
        look(broker, login(broker))


@pytest.mark.parametrize("use", [publish, look])
def test_a_wrong_password_and_another_issuer_are_refused_for_good(
    broker: GuardedKafka, use: Callable[[GuardedKafka, dict[str, str]], None]
) -> None:
    broker.allow((TOPIC, "guarded", WRITE), (TOPIC, "guarded", READ), (GROUP, "g", READ))
    with pytest.raises(BusRejected, match=r"cannot be logged in to: .*SCRAM-SHA-512"):
        use(broker, login(broker, password="wrong"))
    with pytest.raises(BusRejected, match=r"cannot be logged in to: .*certificate verify failed"):
        use(broker, login(broker, ca=broker.theirs))


def test_letters_that_the_user_may_not_see_are_not_taken_for_none(broker: GuardedKafka) -> None:
    broker.allow()
    task = load_task(broker.guarded, login(broker))
    loads = replace(task, dead_letters=DeadLetterConfig("guarded"))
    with (
        DeadLetterTopic(loads) as topic,
        pytest.raises(BusRejected, match=r"topic guarded: .* ACL"),
    ):
        topic.dead_letters()


@pytest.mark.parametrize("rights", [DESCRIBE, READ])
def test_letters_are_not_resolved_without_the_right_to_write(
    broker: GuardedKafka, rights: AclOperation
) -> None:
    broker.allow((TOPIC, "guarded", rights))
    options = login(broker)
    loads = replace(load_task(broker.guarded, options), dead_letters=DeadLetterConfig("guarded"))
    fetch = fetch_task(broker.guarded, options)
    fetches = replace(fetch, publish=replace(fetch.publish, dead_letter_topic="guarded"))
    row = DeadLetter("guarded", 0, 0, "no JSON")
    with DeadLetterTopic(loads) as topic, pytest.raises(BusRejected, match=LACKS_WRITE):
        topic.drop([OpenDeadLetter(row, "", None, b"", [], 0)])
    with pytest.raises(BusRejected, match=LACKS_WRITE):
        FetchLetters(fetches).drop([FetchLetter(LargeRow("t/binlog.1:4/0/0", ""), "", {})])

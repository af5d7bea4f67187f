"""A Kafka that wants a login, or a certificate: with the settings of one task file, in either
client's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from pymysql.cursors import Cursor

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs
from cdcbus.ops.stack.addresses import HOST, Addresses, Plan, free_port
from cdcbus.ops.stack.java_servers import KAFKA
from cdcbus.plugins.errors import BusRejected, BusUnavailable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.publish.publisher import KafkaPublisher
from cdcbus.tasks.config.diagnostics import Diagnostics
from cdcbus.tasks.config.named_sources import VOCABULARY, NamedSource
from cdcbus.tasks.config.parser import written_entries
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.preflight.named_source import check_source
from tests.support.changes.shop import open_shop
from tests.support.servers.secure_servers import Authority, open_folder, place_of, running
from tests.support.topics.new_topics import create_topics
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = 'pass;word="1'
QUOTED = PASSWORD.replace('"', '\\\\"')  # in a JAAS text, in a .properties file


@dataclass(frozen=True, slots=True)
class SecureKafka:
    """One broker: `plain` lets everybody in, `login` wants a user and password, `tls` a
    certificate of `ours`."""

    plain: str
    login: str
    tls: str
    ours: Authority
    theirs: Authority
    client: Path


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureKafka]:
    with ExitStack() as open_:
        folder = open_.enter_context(open_folder())
        ours, theirs, plan = (
            Authority.new(folder, "ours"),
            Authority.new(folder, "theirs"),
            Plan.new(),
        )
        login = f"{HOST}:{free_port(plan.ports.values())}"
        tls = f"{HOST}:{free_port([*plan.ports.values(), int(login.partition(':')[2])])}"
        kafka, controller = plan.address("kafka"), plan.address("kafka-controller")
        users = f'required user_alice="{QUOTED}";'
        settings = [
            f"listeners=PLAINTEXT://{kafka},SASL_PLAINTEXT://{login},SSL://{tls},CONTROLLER://{controller}",
            f"advertised.listeners=PLAINTEXT://{kafka},SASL_PLAINTEXT://{login},SSL://{tls}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} {users}",
            f"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={SCRAM} required;",
            f"ssl.keystore.type=PEM\nssl.keystore.location={ours.issue('server')}",
            f"ssl.truststore.type=PEM\nssl.truststore.location={ours.ca}\nssl.client.auth=required",
            "connection.failed.authentication.delay.ms=0",
        ]
        open_.enter_context(running(KAFKA, place_of(KAFKA, folder, plan), settings=settings))
        admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        create_topics(admin, NewTopic("guarded", 2, 1))
        user = UserScramCredentialUpsertion(
            "scram", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
        )
        admin.alter_user_scram_credentials([user])["scram"].result(30)
        yield SecureKafka(kafka, login, tls, ours, theirs, ours.issue("client"))


def java_login(mechanism: str, user: str, password: str = QUOTED) -> dict[str, str]:
    """As they are written in a task file."""
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def librdkafka_login(mechanism: str, user: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


LOGINS = [
    java_login("PLAIN", "alice"),
    java_login("SCRAM-SHA-256", "scram"),
    librdkafka_login("PLAIN", "alice"),
    librdkafka_login("SCRAM-SHA-256", "scram"),
]
WRONG = [java_login("PLAIN", "alice", "wrong"), librdkafka_login("SCRAM-SHA-256", "scram", "wrong")]


def fetch_task(servers: str, options: Mapping[str, str], topic: str = "guarded") -> FetchTask:
    keys = {
        "taskId": "t", "consumer.consumerName": "CanalFetch", "consumer.source.address": "db:3306", "consumer.source.username": "u",
        "loader.loaderName": "KAFKA_SYNC", "loader.source.servers": servers, "loader.source.topic": topic,
        **{f"kafka.{name}": value for name, value in options.items()},
    }  # fmt: skip
    task = inspect_text("".join(f"{key}={value}\n" for key, value in keys.items())).task
    assert isinstance(task, FetchTask)
    return task


def load_task(servers: str, options: Mapping[str, str]) -> LoadTask:
    keys = {
        "taskId": "t", "consumer.consumerName": "KafkaFetch", "consumer.source.servers": servers, "consumer.source.topics": "guarded",
        "consumer.source.firstConsumeFrom": "earliest", "consumer.source.group": "g", "loader.loaderName": "JdbcBatch",
        "loader.source.url": "jdbc:postgresql://db/d", **{f"kafka.{name}": value for name, value in options.items()},
    }  # fmt: skip
    task = inspect_text("".join(f"{key}={value}\n" for key, value in keys.items())).task
    assert isinstance(task, LoadTask)
    return task


ROW = RowChange(
    Table(TableId("shop", "orders"), (Column("id", "int"),), ("id",)), Op.INSERT, None, {"id": "1"}
)


def publish(servers: str, options: Mapping[str, str], seconds: float) -> None:
    """What a fetch task's publisher does with a broker: it looks for the topic, and its records
    are acknowledged."""
    task = fetch_task(servers, options)
    publisher = KafkaPublisher(task.publish, make_converter("canalRow"), Event())
    shape = publisher.shape(task.publish.topic, seconds)
    assert shape is not None
    assert shape.partitions == 2
    with publisher:
        publisher.send_changes([ROW])
        publisher.flush()


def look(servers: str, options: Mapping[str, str], seconds: float) -> None:
    """What a consumer task asks before and while it runs."""
    with TopicLogs(load_task(servers, options), seconds) as logs:
        assert logs.partitions("guarded") == [0, 1]
        first, end = logs.bounds(TopicPartition("guarded", 0))
        assert first <= end
        assert logs.at_time(TopicPartition("guarded", 0), 0) in (None, 0)
        assert logs.committed(TopicPartition("guarded", 0)) is None


def look_at_named_source(servers: str, options: Mapping[str, str], seconds: float) -> None:
    """`cdcbus source test`."""
    text = f"servers={servers}\n" + "".join(
        f"kafka.{name}={value}\n" for name, value in options.items()
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cdcbus.tasks.preflight.named_source.ANSWER_SECONDS", seconds)
        check_source(
            NamedSource("k", "k.properties", written_entries(text, Diagnostics(), VOCABULARY)), {}
        )


CLIENTS = [publish, look, look_at_named_source]
Use = Callable[[str, Mapping[str, str], float], None]
PATIENCE_SECONDS, SHORT_SECONDS = 30.0, 1.5  # a client that is not let in waits for the whole of it


@pytest.mark.parametrize("use", CLIENTS)
@pytest.mark.parametrize(
    "options", LOGINS, ids=["java-plain", "java-scram", "librdkafka-plain", "librdkafka-scram"]
)
def test_a_login_in_either_client_s_words(
    broker: SecureKafka, use: Use, options: dict[str, str]
) -> None:
    use(broker.login, options, PATIENCE_SECONDS)


@pytest.mark.parametrize("use", CLIENTS)
@pytest.mark.parametrize("options", WRONG, ids=["plain", "scram"])
def test_a_wrong_password_is_refused_for_good_and_not_shown(
    broker: SecureKafka, use: Use, options: dict[str, str]
) -> None:
    with pytest.raises(
        BusRejected, match=r"cannot be logged in to: .*[Aa]uthentication.*kafka\.sasl"
    ) as refused:
        use(broker.login, options, SHORT_SECONDS)
    assert "wrong" not in str(refused.value)


def test_a_task_that_sends_says_that_its_login_is_refused_by_now(
    broker: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """As when its password was changed at the brokers while it runs."""
    task = fetch_task(broker.login, WRONG[1])
    publisher = KafkaPublisher(task.publish, make_converter("canalRow"), Event())
    publisher._produce("guarded", [{"key": b"1", "value": b"{}"}])

    def is_said() -> bool:
        publisher.client.flush(1)
        return "refuses the login by now" in caplog.text

    wait_until(is_said, "the warning")
    assert "sent when one does" not in caplog.text
    publisher.client.purge()


@pytest.mark.parametrize("use", CLIENTS)
def test_without_a_login_no_broker_answers(broker: SecureKafka, use: Use) -> None:
    with pytest.raises(BusUnavailable, match=f"no Kafka broker answers at {broker.login}: ."):
        use(broker.login, {}, SHORT_SECONDS)


def certificates(broker: SecureKafka, spelling: str, ca: Authority) -> dict[str, str]:
    if spelling == "java":
        return {
            "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca.ca), "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(broker.client),
        }  # fmt: skip
    return {
        "security.protocol": "ssl", "ssl.ca.location": str(ca.ca), "ssl.certificate.location": str(broker.client),
        "ssl.key.location": str(broker.client),
    }  # fmt: skip


@pytest.mark.parametrize("use", CLIENTS)
@pytest.mark.parametrize("spelling", ["java", "librdkafka"])
def test_tls_in_either_client_s_words(broker: SecureKafka, use: Use, spelling: str) -> None:
    use(broker.tls, certificates(broker, spelling, broker.ours), PATIENCE_SECONDS)


@pytest.mark.parametrize("use", CLIENTS)
def test_a_broker_with_another_certificate_is_refused_for_good(
    broker: SecureKafka, use: Use
) -> None:
    with pytest.raises(
        BusRejected, match=r"cannot be logged in to: .*certificate verify failed.*kafka\.ssl"
    ):
        use(broker.tls, certificates(broker, "java", broker.theirs), SHORT_SECONDS)


def test_rows_go_from_a_source_to_a_target_through_a_broker_with_logins(
    broker: SecureKafka, name: str, stack: Addresses, source_cursor: Cursor, tmp_path: Path
) -> None:
    """Each task's file in the words of the client that it does not use."""
    admin = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
    create_topics(admin, NewTopic(name, 1, 1))
    with open_shop(name, stack, source_cursor, tmp_path) as shop:
        shop.create("orders", "id INT PRIMARY KEY, name VARCHAR(40)")
        fetch = shop.fetch(
            stack.source,
            loader__source__servers=broker.login,
            **keys(java_login("SCRAM-SHA-256", "scram")),
        )
        load = shop.load(
            "postgresql",
            consumer__source__servers=broker.login,
            **keys(librdkafka_login("PLAIN", "alice")),
        )
        fetch.start()
        load.start()
        wait_until(lambda: shop.position(fetch) is not None, "a position")
        source_cursor.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
        wait_until(
            lambda: shop.rows("orders")["postgresql"] == [(1, "a"), (2, "b")],
            "the rows at the target",
        )


def keys(options: Mapping[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in options.items()}

"""What a task file says of Kafka's client: what is ignored, what is secret, what may be missing
for now."""

from __future__ import annotations

import pytest

from cdcbus.plugins.kafka.producer_options import FIXED
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.kafka_options import PRODUCER_FIXED
from cdcbus.tasks.config.read_task import Inspection, inspect_text

FETCH = """taskId=t
consumer.consumerName=CanalFetch
consumer.source.address=db:3306
consumer.source.username=u
loader.loaderName=KAFKA_SYNC
loader.source.servers=k:9092
loader.source.topic=t
"""


def inspect(*lines: str) -> Inspection:
    return inspect_text(FETCH + "\n".join(lines))


def sentences(inspection: Inspection) -> list[str]:
    return [
        f"{diagnostic.severity} {diagnostic.key}: {diagnostic.sentence}"
        for severity in Severity
        for diagnostic in inspection.diagnostics.of(severity)
    ]


def test_each_setting_that_the_publisher_fixes_is_told_where_a_file_changes_it() -> None:
    assert FIXED.keys() <= PRODUCER_FIXED.keys()
    for option in FIXED:
        assert sentences(inspect(f"kafka.{option}=17")) == [
            f"warning kafka.{option}: ignored: {PRODUCER_FIXED[option][1]}; remove the line"
        ]


@pytest.mark.parametrize(
    "line", ["kafka.acks=all", "kafka.acks=-1", "kafka.enable.idempotence=True", "kafka.acks="]
)
def test_a_line_that_says_what_is_done_anyway_is_not_worth_a_word(line: str) -> None:
    assert sentences(inspect(line)) == []


def test_an_option_counts_in_any_case_of_its_letters() -> None:
    """Spark passes options on in lower case, so that one gets by each list of names otherwise."""
    found = inspect("kafka.ACKS=1", "kafka.Client.Id=a", "loader.source.kafka.client.id=b")
    assert sentences(found) == [
        f"warning kafka.ACKS: ignored: {PRODUCER_FIXED['acks'][1]}; remove the line"
    ]
    assert isinstance(found.task, FetchTask)
    assert found.task.publish.kafka_options["client.id"] == "b"


def test_a_login_whose_secret_is_not_here_is_only_a_note() -> None:
    login = (
        'kafka.sasl.jaas.config=a.PlainLoginModule required username="u" '
        'password="${env:NO_SUCH_SECRET}";'
    )
    (note,) = sentences(inspect("kafka.sasl.mechanism=PLAIN", login))
    assert note.startswith("note kafka.sasl.jaas.config: ")


@pytest.mark.parametrize(
    "option",
    ["sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.key.pem", "ssl.keystore.key"],
)
def test_secrets_in_the_file_are_told_and_not_shown(option: str) -> None:
    value = (
        'x.PlainLoginModule required username="u" password="SECRET";'
        if "jaas" in option
        else "SECRET"
    )
    (warning,) = sentences(inspect(f"kafka.{option}={value}"))
    assert warning.startswith(f"warning kafka.{option}: the secret is written in the file")
    assert "SECRET" not in warning

"""`consumer.stopAt`: a task file says where a run ends, in the words of `--until`."""

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.start import AfterOffset, AtGtid, AtTime, Edge
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.control.until import bounded_by

FETCH = (
    "taskId=1\nconsumer.consumerName=CanalFetch\nconsumer.source.address=h:1\n"
    "consumer.source.username=u\nloader.loaderName=KAFKA_SYNC\nloader.source.servers=k:1\n"
    "loader.source.topic=t\n"
)
LOAD = (
    "taskId=1\nconsumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\n"
    "consumer.source.topics=a\nloader.loaderName=JdbcBatch\n"
    "loader.source.url=jdbc:mysql://h/db\n"
)
TIME = AtTime(1714528800000)


@pytest.mark.parametrize(
    ("text", "word", "until"),
    [
        (FETCH, "now", Edge.LATEST),
        (FETCH, "2024-05-01T02:00:00Z", TIME),
        (FETCH, "b.000003:154", BinlogPosition("b.000003", 154)),
        (FETCH, "0-1-100", AtGtid("0-1-100")),
        (LOAD, "now", Edge.LATEST),
        (LOAD, "2024-05-01T02:00:00Z", TIME),
        (LOAD, "41", AfterOffset(41)),
    ],
)
def test_each_end_is_read_and_the_command_line_counts_before_it(
    text: str, word: str, until: object
) -> None:
    task = inspect_text(f"{text}consumer.stopAt={word}\n", {}, sources=lambda _: None).task
    assert task is not None
    assert task.until == until
    assert bounded_by(task, "2020-01-01T00:00:00").until == AtTime(1577836800000)
    plain = inspect_text(text, {}, sources=lambda _: None).task
    assert plain is not None
    assert plain.until is None


@pytest.mark.parametrize(
    ("text", "word", "why"),
    [
        (FETCH, "earliest", "cannot be the end of a run"),
        (FETCH, "41", "cannot be the end of a run"),
        (LOAD, "-1", "is before the first offset"),
        (LOAD, "b.000003:154", "cannot be the end of a run"),
        (LOAD, "1-2", "is a replay"),
        (LOAD.replace("topics=a", "topics=a,b"), "41", "one offset for 2 topics"),
    ],
)
def test_what_is_no_end_is_an_error_at_its_line(text: str, word: str, why: str) -> None:
    inspection = inspect_text(f"{text}consumer.stopAt={word}\n", {}, sources=lambda _: None)
    with pytest.raises(ConfigError, match=rf"consumer\.stopAt: .*{why}"):
        inspection.ready("f.properties")

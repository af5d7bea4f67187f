"""Which partitions of a topic a task reads."""

import pytest

from cdcbus.consumer.offsets import chosen_partitions
from cdcbus.consumer.task import TopicConfig
from cdcbus.plugins.errors import ConfigError


@pytest.mark.parametrize(("chosen", "read"), [((), [0, 1, 2]), ((1,), [1]), ((0, 2), [0, 2])])
def test_chosen_partitions_are_read_else_all(chosen: tuple[int, ...], read: list[int]) -> None:
    assert list(chosen_partitions(TopicConfig("k:1", ("t",), chosen), "t", [0, 1, 2])) == read


@pytest.mark.parametrize(("chosen", "missing"), [((3,), "3"), ((0, 3, 7), "3, 7")])
def test_those_that_the_topic_lacks_are_told_with_those_that_it_has(chosen: tuple[int, ...], missing: str) -> None:
    with pytest.raises(ConfigError) as refused:
        chosen_partitions(TopicConfig("k:1", ("t",), chosen), "t", [0, 1, 2])
    assert str(refused.value) == f"consumer.source.partition: topic t has no partition {missing}, only 0 to 2"

import pytest

from cdcbus.tasks.config.template import example_text, task_text


@pytest.mark.parametrize(
    "route", ["mysql-to-kafka", "kafka-to-mysql", "kafka-to-oracle", "kafka-to-postgresql"]
)
def test_without_other_values_it_is_the_example(route: str) -> None:
    assert task_text(example_text(route), {}) == example_text(route)


def test_a_value_replaces_the_one_of_the_example_also_where_that_is_a_remark() -> None:
    assert (
        task_text("# a=1 is\na=1\n#b=2\n\nc=3\n", {"a": "x", "b": "y"})
        == "# a=1 is\na=x\nb=y\n\nc=3\n"
    )


def test_a_line_without_a_value_becomes_a_remark() -> None:
    assert task_text("a=1\n#b=2\n", {"a": "", "b": ""}) == "#a=1\n#b=2\n"


def test_a_backslash_is_written_twice_and_a_blank_at_the_begin_is_kept() -> None:
    assert task_text("a=1\n", {"a": r" a\.b"}) == "a=\\ a\\\\.b\n"


def test_a_key_that_the_example_lacks_does_not_get_lost() -> None:
    with pytest.raises(KeyError, match="b"):
        task_text("a=1\n", {"b": "2"})

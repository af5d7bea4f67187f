import pytest

from cdcbus.tasks.config.keys.misspelt import unknown_key_refusal
from cdcbus.tasks.config.keys.task import KEYS


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("consumer.inclides", "consumer.includes"),
        ("consumer.exclides", "consumer.excludes"),
        ("Consumer.Includes", "consumer.includes"),
        ("consumer.source.topic", "consumer.source.topics"),
        ("consumer.source.server", "consumer.source.servers"),
        ("loader.source.username", "loader.source.userName"),
        ("loader.source.passwrd", "loader.source.password"),
        ("loader.source.ulr", "loader.source.url"),
        ("loader.source.partitonKey.SHOP.ORDERS", "loader.source.partitionKey.<SCHEMA>.<TABLE>"),
        ("mapper[0].mas.PHONE", "mapper[i].mask.<COLUMN>"),
        ("mapper[ 0 ].mask.PHONE", "mapper[i].mask.<COLUMN>"),
        ("mapper[0].ignor", "mapper[i].ignore"),
        ("receivr[0].email", "receiver[i].email"),
        ("kafak.linger.ms", "kafka.*"),
        ("taskid", "taskId"),
    ],
)
def test_a_slip_of_the_pen_is_known(written: str, meant: str) -> None:
    assert unknown_key_refusal(written) == f"and it looks like {meant}: correct it"


@pytest.mark.parametrize(
    "written",
    [
        "consumer.source.colour",
        "consumer.source.user",
        "consumer.source.timestamps",
        "loader.source.encoding",
        "loader.source.schema",
        "something.else.entirely",
        "consumer",
        "mapper",
        "a",
        "",
        ".",
    ],
)
def test_a_key_that_is_like_none_is_no_slip(written: str) -> None:
    assert unknown_key_refusal(written) is None


@pytest.mark.parametrize("written", ["consumer.source.pollTimeout", "mapper[0].Auto", "Status"])
def test_a_slip_in_a_key_without_effect_does_no_harm(written: str) -> None:
    assert unknown_key_refusal(written) is None


@pytest.mark.parametrize("written", ["mapper[0].sourceDatabase", "MAPPER[12].x.y", "mapper[a]."])
def test_a_line_that_no_rule_has_is_refused_though_it_is_like_none(written: str) -> None:
    refusal = unknown_key_refusal(written)
    assert refusal is not None
    assert "mapper[i] has schema, table, column.<COLUMN>, include, ignore" in refusal


def test_each_key_with_an_effect_is_found_with_a_letter_missing() -> None:
    for name, key in KEYS.items():
        last = name.rpartition(".")[2]
        if not key.is_idle and last.isalpha() and len(last) > 5:
            assert unknown_key_refusal(name[:-3] + name[-2:]) is not None, name

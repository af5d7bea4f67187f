"""Lists of which the separator is another one than people think."""

from __future__ import annotations

import pytest

from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys.types import ADDRESSES, REGEXES
from cdcbus.tasks.config.read_task import inspect_text
from tests.unit.tasks.config.keys.test_allow_lists import LOAD

RULE = "mapper[0].schema=shop,shop\nmapper[0].table=orders,orders\n"


def test_a_comma_in_brackets_belongs_to_its_expression() -> None:
    assert REGEXES.read(r"shop\.secret_[0-9]{1,3}, c\.d") == (r"shop\.secret_[0-9]{1,3}", r"c\.d")


@pytest.mark.parametrize("text", [r"shop\.a;shop\.b", "shop\\.a\uff0cshop\\.b", r"shop\.a shop\.b"])
def test_expressions_are_separated_by_commas(text: str) -> None:
    with pytest.raises(ValueError, match="otherwise than by commas"):
        REGEXES.read(text)


FETCH = """taskId=t
consumer.consumerName=CanalFetch
consumer.converter=canalRow
consumer.source.address=h:3306
consumer.source.username=u
consumer.source.database=d
consumer.offset=latest
loader.loaderName=KAFKA_SYNC
loader.source.servers=k:9092
loader.source.topic=t
loader.source.oggJson=false
"""


@pytest.mark.parametrize(
    ("key", "severity", "is_refused"),
    [("blackFilter", Severity.ERROR, True), ("filter", Severity.WARNING, False)],
)
@pytest.mark.parametrize("text", ["secrets", "(secrets|audit)", r"shop\\.a,secret_+"])
def test_an_expression_that_matches_no_table_is_refused_where_it_was_to_withhold_one(
    text: str, key: str, severity: Severity, is_refused: bool
) -> None:
    """A file of porter with one in its filter still runs."""
    inspection = inspect_text(f"{FETCH}consumer.source.{key}={text}\n", {}, Severity.ERROR)
    assert (inspection.task is None) is is_refused
    said = [each.sentence for each in inspection.diagnostics.of(severity)]
    assert len([each for each in said if "matches no schema.table: write" in each]) == 1


@pytest.mark.parametrize("text", ["shop.secrets", r"shop\\W.+", "shop[.]a", r"shop\\.order items"])
def test_an_expression_that_can_match_a_table_is_taken(text: str) -> None:
    inspection = inspect_text(f"{FETCH}consumer.source.blackFilter={text}\n", {}, Severity.ERROR)
    assert inspection.task is not None


@pytest.mark.parametrize("text", ["b1:9092;b2:9092", "b1:9092\u3001b2:9092"])
def test_addresses_are_separated_by_commas(text: str) -> None:
    with pytest.raises(ValueError, match="not host:port"):
        ADDRESSES.read(text)


@pytest.mark.parametrize("host", ["db..example", f"{'x' * 64}.example"])
def test_what_can_be_no_hosts_name_is_refused(host: str) -> None:
    """A look-up raises the same error, which is none of a server that is away."""
    inspection = inspect_text(f"consumer.source.servers=b:1,{host}:9092\n", {}, Severity.ERROR)
    said = [each.sentence for each in inspection.diagnostics.of(Severity.ERROR)]
    assert any("expected host:port" in sentence and "servers" in sentence for sentence in said)


@pytest.mark.parametrize(
    "line",
    [
        "mapper[0].ignore=phone;email",
        "mapper[0].ignore=phone email",
        "mapper[0].ignore=phone\uff0cemail",
        "mapper[0].include=id\uff1bname",
        "mapper[0].mask.phone;email=hash",
    ],
)
def test_columns_are_separated_by_commas(line: str) -> None:
    found = inspect_text(f"{LOAD}{RULE}{line}\n", {}, Severity.ERROR).diagnostics
    (about,) = [each.sentence for each in found.of(Severity.ERROR) if each.line == 11]
    assert "is read as the name of one column: separate names by commas" in about


def test_a_column_with_a_space_in_its_name_can_be_allowed() -> None:
    lines = "mapper[0].ignore=first name\ncheck.allow=mapper[0].ignore\n"
    inspection = inspect_text(f"{LOAD}{RULE}{lines}", {}, Severity.ERROR)
    assert inspection.task is not None


def test_a_space_in_the_name_of_a_key_is_meant() -> None:
    found = inspect_text(f"{LOAD}{RULE}mapper[0].mask.first\\ name=hash\n", {}, Severity.ERROR)
    assert not found.diagnostics.of(Severity.ERROR)

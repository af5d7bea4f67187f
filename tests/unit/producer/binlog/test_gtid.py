"""GTID sets against plain Python sets; that the servers agree is in
tests/integration/producer/test_gtids.py."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import PositionError
from cdcbus.producer.binlog.gtid import MariadbGtids, MysqlGtids, commit_us, parse_gtids

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563"
KEYS = st.sampled_from([A, B, f"{A}:tag", f"{B}:t_1", f"{B}:zz"])
NUMBERS = st.one_of(st.integers(1, 30), st.integers(2**62, 2**62 + 5))
MEMBERS = st.frozensets(st.tuples(KEYS, NUMBERS), max_size=40)


def mysql(members: Iterable[tuple[str, int]]) -> MysqlGtids:
    found = MysqlGtids()
    for key, number in members:
        found.add(f"{key}:{number}")
    return found


@given(MEMBERS, st.randoms())
def test_the_order_in_which_transactions_come_does_not_matter(
    members: frozenset[tuple[str, int]], random: Random
) -> None:
    assert str(mysql(random.sample(sorted(members), len(members)))) == str(mysql(sorted(members)))


@given(MEMBERS)
def test_a_set_survives_its_text_and_its_bytes(members: frozenset[tuple[str, int]]) -> None:
    found = mysql(members)
    assert str(MysqlGtids.parse(str(found))) == str(found)
    assert str(MysqlGtids.from_bytes(found.to_bytes())) == str(found)


@given(MEMBERS, MEMBERS)
def test_merging_and_covering_are_those_of_sets(
    ours: frozenset[tuple[str, int]], theirs: frozenset[tuple[str, int]]
) -> None:
    found = mysql(ours)
    assert found.covers(mysql(theirs)) == (ours >= theirs)
    found.merge(mysql(theirs))
    assert str(found) == str(mysql(ours | theirs))


def test_the_text_is_mysqls() -> None:
    found = MysqlGtids.parse(f" {B.upper()}:7:1-5,\n{A}:Tag:3:2:1-1:9 , {B}:6")
    assert str(found) == f"{A}:tag:1-3:9,{B}:1-7"
    found.add(f"{A}:1")
    found.add(f"{B}:8")
    found.add(f"{B}:10")
    assert str(found) == f"{A}:1:tag:1-3:9,{B}:1-8:10"


def test_sets_without_tags_are_written_as_older_servers_read_them() -> None:
    assert MysqlGtids.parse(f"{A}:1-5").to_bytes().hex() == (
        "0100000000000000"
        + A.replace("-", "")
        + "0100000000000000"
        + "0100000000000000"
        + "0600000000000000"
    )


@pytest.mark.parametrize(
    "text",
    [
        "x",
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:5-4",
        f"{A}:1-2-3",
        f"{A}:tag-1:1",
        f"{A[:-1]}:1",
        "0-1-100",
        f"{A}:1:",
    ],
)
def test_text_that_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(PositionError, match="not a GTID set"):
        parse_gtids(text, is_mariadb=False)


def test_a_mariadb_position_is_the_last_transaction_of_each_domain() -> None:
    found = MariadbGtids.parse(" 10-1-7, 2-5-3")
    assert str(found) == "2-5-3,10-1-7"
    found.add("10-2-8")
    found.add("0-1-1")
    assert str(found) == "0-1-1,2-5-3,10-2-8"
    found.merge(MariadbGtids.parse("10-1-99,4-1-1"))
    assert str(found) == "0-1-1,2-5-3,4-1-1,10-2-8"


def test_a_mariadb_position_covers_what_is_as_far_in_every_domain() -> None:
    found = MariadbGtids.parse("0-1-5,1-1-5")
    assert found.covers(MariadbGtids.parse("0-2-5"))
    assert not found.covers(MariadbGtids.parse("0-1-6"))
    assert not found.covers(MariadbGtids.parse("2-1-1"))
    assert found.covers(MariadbGtids.parse(""))
    assert found.missing(MariadbGtids.parse("0-2-5,1-2-7,2-1-1")) == "1-2-7"


@pytest.mark.parametrize(
    ("logged", "replicated", "lacks"),
    [
        ("0-1-150", "", ""),
        ("0-1-151,0-2-160", "", ""),
        ("0-1-130, 0-2-160", "0-1-130", "0-1-150"),
        ("0-2-160", "", "0-1-150"),
        ("0-2-160", "0-1-150", ""),
        ("7-1-9", "", ""),
        ("", "", ""),
    ],
)
def test_a_mariadb_server_has_had_a_transaction_by_the_server_that_committed_it(
    logged: str, replicated: str, lacks: str
) -> None:
    """Numbers of another one can be those of transactions that it never had."""
    assert MariadbGtids.parse("0-1-150").not_in(logged, replicated) == lacks


def test_the_last_of_a_domain_in_a_gtid_list_counts() -> None:
    entries = b"".join(struct.pack("<IIQ", *entry) for entry in ((0, 1, 9), (0, 2, 7), (3, 1, 1)))
    assert (
        str(MariadbGtids.from_bytes((3 | 1 << 28).to_bytes(4, "little") + entries)) == "0-2-7,3-1-1"
    )


@pytest.mark.parametrize(
    "text", ["1-1", "0-1-x", "0-1-100;", "0-1-18446744073709551616", f"{A}:1-5"]
)
def test_text_that_is_no_mariadb_position_is_refused(text: str) -> None:
    with pytest.raises(PositionError, match="not a GTID position"):
        parse_gtids(text, is_mariadb=True)


def test_the_time_of_a_commit_is_that_on_its_first_server() -> None:
    here, first = 1_700_000_000_000_000, 1_600_000_000_000_000
    head = bytes(42)
    assert commit_us(head + here.to_bytes(7, "little") + bytes(8)) == here
    assert (
        commit_us(head + (here | 1 << 55).to_bytes(7, "little") + first.to_bytes(7, "little"))
        == first
    )
    assert commit_us(bytes(25)) == 0


def test_a_number_that_no_mysql_server_has_is_refused() -> None:
    assert str(parse_gtids(f"{A}:1-9223372036854775807", is_mariadb=False)).endswith("5807")
    with pytest.raises(PositionError, match="not a GTID set"):
        parse_gtids(f"{A}:1-9223372036854775808", is_mariadb=False)

import pytest

from cdcbus.plugins.errors import SourceMisconfigured
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.binlog.coordinates import SPAN
from cdcbus.producer.source.end_watch import Sent
from cdcbus.producer.source.run_end import RunEnd


def at(file: int, pos: int, gtid: str = "", server: str = "a") -> BinlogPosition:
    return BinlogPosition(f"bin.{file:06}", pos, gtid=gtid, server_uuid=server)


END = RunEnd(at(2, 500, "0-1-7"), is_mariadb=True)


@pytest.mark.parametrize(
    ("edge", "is_reached"),
    [(at(2, 499), False), (at(2, 500), True), (at(3, 4), True), (at(1, 900), False)],
)
def test_on_its_own_server_the_place_counts(edge: BinlogPosition, is_reached: bool) -> None:
    assert END.is_reached(edge) is is_reached


@pytest.mark.parametrize(
    ("gtid", "is_reached"), [("0-2-6", False), ("0-2-7", True), ("1-1-9", False), ("", False)]
)
def test_on_another_server_the_gtids_count(gtid: str, is_reached: bool) -> None:
    assert END.is_reached(at(9, 900, gtid, "b")) is is_reached


def test_without_gtids_another_server_is_refused() -> None:
    with pytest.raises(SourceMisconfigured, match="another server now"):
        RunEnd(at(2, 500), is_mariadb=False).is_reached(at(2, 500, server="b"))


def test_a_gtid_set_needs_all_of_its_transactions() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    end = RunEnd(BinlogPosition("", 0, gtid=f"{uuid}:1-5:9"), is_mariadb=False)
    assert not end.is_reached(at(2, 4, f"{uuid}:1-8"))
    assert end.is_reached(at(2, 4, f"{uuid}:1-9"))


def test_behind_an_open_xa_transaction_what_is_out_counts() -> None:
    edge = BinlogPosition("bin.000001", 4, server_uuid="a", published=Published("bin.000002", 500))
    assert END.is_reached(edge)


@pytest.mark.parametrize(
    ("sent", "server", "is_sent"),
    [
        (None, "a", False),
        (Sent("bin.000002", 499, 0), "a", False),
        (Sent("bin.000002", 500, 0), "a", True),
        (Sent("bin.000003", 4, 0), "a", True),
        (Sent("bin.000003", 4, 0), "b", False),
    ],
)
def test_what_the_server_has_sent_is_an_end_too(
    sent: Sent | None, server: str, is_sent: bool
) -> None:
    assert END.is_sent(sent, server) is is_sent


def test_beyond_four_gigabytes_what_was_sent_has_the_low_digits_only() -> None:
    end = RunEnd(at(2, SPAN + 500), is_mariadb=True)
    assert not end.is_sent(Sent("bin.000002", 900, 0), "a")
    assert end.is_sent(Sent("bin.000002", 500, 0), "a")

import time

import pytest

from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.tasks.zookeeper import connection
from cdcbus.tasks.zookeeper.connection import connect


def test_an_unreachable_server_is_named_within_five_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(
        PositionUnavailable, match=r"127\.0\.0\.1:1/suixingpay did not answer within 0\.5 s"
    ):
        connect("127.0.0.1:1/suixingpay", timeout_seconds=0.5)
    assert time.monotonic() - began < 5


def test_where_nobody_named_a_server_the_ways_to_name_one_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "DEFAULT_ZOOKEEPER", "127.0.0.1:1")
    with pytest.raises(PositionUnavailable, match="with --zookeeper, CDCBUS_ZOOKEEPER or"):
        connect("127.0.0.1:1", timeout_seconds=0.2)
    with pytest.raises(PositionUnavailable, match="check the address"):
        connect("127.0.0.1:2", timeout_seconds=0.2)


@pytest.mark.parametrize("address", ["[::1]:1", "127.0.0.1:1,[::1]:2/a/b", "nohost.invalid:1"])
def test_each_form_of_an_address_is_tried(address: str) -> None:
    with pytest.raises(PositionUnavailable):
        connect(address, timeout_seconds=0.2)


@pytest.mark.parametrize("address", ["127.0.0.1:port", "[::1:2181", "", "zk1..example:2181"])
def test_text_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        connect(address)

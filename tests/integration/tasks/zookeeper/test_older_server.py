"""A ZooKeeper that has fewer changes than its clients have seen, as after a restore."""

import logging

import pytest

from cdcbus.tasks.zookeeper.connection import connect, connected
from tests.support.servers.private_zookeeper import PrivateZooKeeper, private_zookeeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
CHANGES = 50


def change(server: PrivateZooKeeper, number: int) -> None:
    with connected(server.address) as client:
        client.ensure_path("/a")
        for _ in range(number):
            client.set("/a", b"")


def test_clients_come_back_to_a_zookeeper_with_fewer_changes_and_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with private_zookeeper() as server:
        change(server, CHANGES)
        client = connect(server.address, session_seconds=4)
        try:
            client.set("/a", b"")
            before = client.last_zxid
            with caplog.at_level(logging.WARNING, logger="cdcbus.tasks.zookeeper.connection"):
                server.kill()
                server.empty()
                server.start()
                wait_until(lambda: client.connected, "the client to be back")
                # As itself: nothing of the former session is left.
                client.ensure_path("/b")
                assert client.last_zxid < before
                wait_until(lambda: "fewer changes" in caplog.text, "the warning")
        finally:
            client.stop()
            client.close()


def test_a_zookeeper_that_was_away_for_long_is_not_called_older(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with private_zookeeper() as server:
        change(server, CHANGES)
        client = connect(server.address, session_seconds=4)
        try:
            client.get("/a")
            server.pause()
            # As it does once its session can be over.
            wait_until(lambda: client.last_zxid == 0, "the client to ask any server")
            server.go_on()
            wait_until(lambda: client.connected, "the client to be back")
            assert client.get("/a")[1].version == CHANGES
        finally:
            client.stop()
            client.close()
    assert "fewer changes" not in caplog.text

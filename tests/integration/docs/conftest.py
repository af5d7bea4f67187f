"""A reader for each page, with servers, a shop and a bus of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from cdcbus.ops.stack.addresses import free_port
from cdcbus.tasks.zookeeper.connection import connect
from tests.integration.docs.elsewhere import why_not_here
from tests.integration.docs.reading import Reader, environ_of
from tests.support.changes.shop import Shop

PageReader = Callable[..., AbstractContextManager[Reader]]


@pytest.fixture
def read(shop: Shop, stack_home: Path) -> PageReader:
    """`with read(page) as page:`; at the end each of its commands must have been typed, or be among
    those that others run, or that cannot be run here. The shop's names are in place of `shop`."""
    address = f"{shop.addresses.zookeeper}/{shop.name}"
    client = connect(address)
    client.stop()
    client.close()
    http = f"127.0.0.1:{free_port(())}"
    own = {
        re.escape("127.0.0.1:2181"): address,
        re.escape("127.0.0.1:9092"): shop.addresses.kafka,
        re.escape("127.0.0.1:8190"): http,
        r"\bshop\b": shop.name,
    }

    @contextmanager
    def reading(page: str, **more: str) -> Iterator[Reader]:
        environ = environ_of(shop, stack_home, http)
        reader = Reader(page, shop.folder, environ, {**more, **own})
        yield reader
        assert [line for line in reader.left if not why_not_here(line)] == []

    return reading

"""docs/loading.md: positions that are set, and dead letters."""

from __future__ import annotations

import pytest

from tests.integration.docs.conftest import PageReader
from tests.support.changes.shop import Shop
from tests.support.processes.bus import load_text
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration


def test_loading(read: PageReader, shop: Shop) -> None:
    at, name = shop.addresses, shop.name
    producer = kafka_producer(at.kafka)
    producer.produce(name, b"no JSON", b"k", partition=0)
    assert producer.flush(30) == 0
    with read("docs/loading.md", **{r"\bshop/0/17\b": f"{name}/0/0"}) as page:
        keys = {"loader.onError": "deadletter", "loader.deadletterTopic": f"{name}-dead"}
        file = page.write("shop-to-postgresql.properties", load_text(f"{name}-1", at, name, **keys))
        page.type(f"cdcbus task run {file} --until now")
        assert f"{name}/0/0" in page.run("cdcbus dlq list shop-to-postgresql.properties")
        assert "no JSON" in page.run("cdcbus dlq show shop-to-postgresql.properties shop/0/17")
        page.run("cdcbus dlq replay shop-to-postgresql.properties shop/0/17", typed="y\n")
        page.type(f"cdcbus task run {file} --until now")
        assert f"{name}/0/1" in page.type(f"cdcbus dlq list {file}")
        page.run("cdcbus dlq drop shop-to-postgresql.properties --all", typed="y\n")
        assert f"{name}/0/1" not in page.type(f"cdcbus dlq list {file}")
        page.type(f"cdcbus task import {file}")
        page.run("cdcbus offset reset ID --to earliest", typed="y\n", ID=f"{name}-1")
        page.run("cdcbus offset reset ID --to PLACE", typed="y\n", ID=f"{name}-1", PLACE="latest")
        page.run(
            "cdcbus offset reset ID --to PLACE --topic TOPIC --partition N",
            typed="y\n",
            ID=f"{name}-1",
            PLACE="0",
            TOPIC=name,
            N="0",
        )
        assert '"offset":0,"partition":0' in page.run("cdcbus offset show ID", ID=f"{name}-1")

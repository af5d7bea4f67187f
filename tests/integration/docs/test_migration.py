"""docs/migration.md, with the settings and positions of the other tools where they keep them."""

from __future__ import annotations

import json
from collections.abc import Callable

import orjson
import pytest

from tests.integration.docs.conftest import PageReader
from tests.integration.producer.reading import position
from tests.integration.tasks.foreign import test_porter_tree as porter
from tests.support.changes.shop import Shop
from tests.support.topics.kafka_producer import kafka_producer

pytestmark = pytest.mark.integration


def test_migration(read: PageReader, shop: Shop, make_topic: Callable[..., str]) -> None:
    source, kafka, name = shop.addresses.source, shop.addresses.kafka, shop.name
    shop.cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    place = position(shop.cursor)
    own = {
        "connect-offsets@kafka1:9092": f"{name}-offsets@{kafka}",
        "zk1:2181/suixingpay": f"{shop.addresses.zookeeper}/{name}/porter",
    }
    with read("docs/migration.md", **own) as page:
        page.write(
            "canal.properties",
            f"canal.serverMode=kafka\ncanal.destinations={name}\nkafka.bootstrap.servers={kafka}\n",
        )
        page.write(
            "conf/shop/instance.properties",
            f"canal.instance.master.address={source.host}:{source.port}\n"
            f"canal.instance.dbUsername={source.user}\ncanal.instance.dbPassword={source.password}\n"
            f"canal.instance.filter.regex={name}\\\\..*\ncanal.mq.topic={name}\n"
            f"canal.instance.master.journal.name={place.file}\n"
            f"canal.instance.master.position={place.pos}\n",
        )  # fmt: skip
        page.run("cdcbus task import canal.properties")
        page.run("cdcbus task check shop.properties")

        make_topic(f"{name}-offsets")
        producer = kafka_producer(kafka)
        offset = {"file": place.file, "pos": place.pos, "snapshot": False}
        producer.produce(
            f"{name}-offsets", orjson.dumps(offset), orjson.dumps([name, {"server": name}])
        )
        producer.flush()
        config = {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": source.host,
            "database.port": str(source.port),
            "database.user": source.user,
            "database.password": source.password,
            "topic.prefix": name,
            "database.include.list": name,
            "schema.history.internal.kafka.bootstrap.servers": kafka,
            "tombstones.on.delete": "false",
        }
        page.write("connector.json", json.dumps({"name": name, "config": config}))
        assert f"consumer.offset={place}" in page.run("cdcbus task import connector.json")
        assert (page.folder / "tasks" / f"{name}.properties").exists()

        shop.cursor.execute(
            "CREATE TABLE positions (server_id INT UNSIGNED, binlog_file VARCHAR(255), "
            "binlog_position INT UNSIGNED, gtid_set VARCHAR(4096), client_id VARCHAR(255), "
            "heartbeat_at BIGINT, last_heartbeat_read BIGINT, PRIMARY KEY (server_id, client_id))"
        )
        shop.cursor.execute(
            "CREATE TABLE bootstrap (id BIGINT AUTO_INCREMENT PRIMARY KEY, "
            "database_name VARCHAR(255), table_name VARCHAR(255), is_complete TINYINT, "
            "client_id VARCHAR(255))"
        )
        shop.cursor.execute(
            "INSERT INTO positions VALUES (@@GLOBAL.server_id, %s, %s, NULL, 'maxwell', NULL, 1)",
            (place.file, place.pos),
        )
        page.write(
            "config.properties",
            f"producer=kafka\nkafka.bootstrap.servers={kafka}\nkafka_topic={name}\n"
            f"host={source.host}\nport={source.port}\nuser={source.user}\n"
            f"password={source.password}\nschema_database={name}\n"
            f"filter=exclude: *.*, include: {name}.orders\nproducer_partition_by=primary_key\n",
        )
        assert f"consumer.offset={place}" in page.run("cdcbus task import config.properties")

        tree = {
            "task/242/dist/SHOP": json.dumps(porter.LOAD),
            "task/242/position/SHOP": porter.OFFSET,
            "datesource/target": json.dumps(porter.SOURCE),
        }
        for path, data in tree.items():
            shop.zookeeper.create(f"/{name}/porter/datas/{path}", data.encode(), makepath=True)
        page.environ["PW"] = "a-password"
        page.run("cdcbus task import --porter")
        assert (
            shop.zookeeper.get(f"/{name}/datas/task/242/position/SHOP")[0] == porter.OFFSET.encode()
        )
        page.write("dist.json", json.dumps(porter.FETCH))
        page.run("cdcbus task import FILE.json --output", FILE="dist")
        assert "taskId=7\n" in (page.folder / "dist.properties").read_text()
        page.type(f"cdcbus task import --porter {page.own('zk1:2181/suixingpay')} --output .")
        # nobody has its servers
        page.run("cdcbus task run ID.properties --positions", 1, ID="242")

"""The least that brings rows of a topic into PostgreSQL: one client, one statement and one commit for
each record, as a baseline for delays. It keeps no positions and can do nothing but insert.

    .venv/bin/python -m tests.bench.bare_loop SERVERS TOPIC CONNECTION TABLE
"""

from __future__ import annotations

import sys

import orjson
import psycopg
from confluent_kafka import Consumer, TopicPartition


def main(servers: str, topic: str, connection: str, table: str) -> None:
    """Prints a line once it has found the end of the topic's only partition; reads from there until
    it is killed."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bare", "enable.auto.commit": False}
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    consumer.assign([TopicPartition(topic, 0, end)])
    with psycopg.connect(connection) as target, target.cursor() as cursor:
        print("reads", flush=True)
        while True:
            message = consumer.poll(1.0)
            if message is None or message.error() is not None:
                continue
            for row in orjson.loads(message.value() or b"")["data"]:
                cursor.execute(
                    f"INSERT INTO {table} VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE "
                    "SET name = EXCLUDED.name, amount = EXCLUDED.amount".encode(),
                    (int(row["id"]), row["name"], int(row["amount"])),
                )
            target.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])

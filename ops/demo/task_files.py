"""The demo's task files: the ones a user would write, to be read and copied."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cdcbus.ops.demo.fresh import TOPIC
from cdcbus.ops.demo.shop.schema import SCHEMA, TABLES
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.positions import BinlogPosition

FETCH = "demo-fetch"


@dataclass(frozen=True, slots=True)
class Target:
    """A database that the demo writes to: its name on the command line, the stack's server, its
    name for people."""

    name: str
    server: str
    label: str

    @property
    def task_id(self) -> str:
        return f"demo-{self.name}"

    def database(self, addresses: Addresses) -> Database:
        if self.server == "postgresql":
            return addresses.postgresql
        return addresses.mariadb

    def url(self, addresses: Addresses) -> str:
        """The JDBC address."""
        database = self.database(addresses)
        name = database.database
        # In MariaDB a schema is a database.
        if self.server == "mariadb":
            name = SCHEMA
        return f"jdbc:{self.name}://{database.host}:{database.port}/{name}"


TARGETS = (Target("postgresql", "postgresql", "PostgreSQL"), Target("mysql", "mariadb", "MariaDB"))


def write_task_files(
    folder: Path,
    addresses: Addresses,
    start: BinlogPosition,
    targets: Sequence[Target],
    *,
    snapshot: bool = False,
) -> dict[str, Path]:
    """Writes one file per task, and beside them one with the passwords, which only its owner can
    read. Returns the files by task id. `snapshot`: the shop has rows already."""
    secrets = folder / "passwords.properties"
    _write_secrets(secrets, addresses)
    begin = SNAPSHOT
    if not snapshot:
        begin = _offset(start)
    texts = {FETCH: _fetch(addresses, begin, secrets)}
    for target in targets:
        texts[target.task_id] = _load(addresses, target, secrets)
    files = {}
    for task_id, text in texts.items():
        files[task_id] = folder / f"{task_id}.properties"
        files[task_id].write_text(text, encoding="utf-8")
    return files


def _write_secrets(file: Path, addresses: Addresses) -> None:
    lines = [f"source={addresses.source.password}\n"]
    for target in TARGETS:
        lines.append(f"{target.name}={target.database(addresses).password}\n")
    # An existing file would keep its rights.
    file.unlink(missing_ok=True)
    with os.fdopen(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as out:
        out.writelines(lines)


SNAPSHOT = """\
# Where the first start begins, unless a position was set: here with the changes from now on.
consumer.offset=latest
# And the existing rows, once, while the binlog is followed.
consumer.snapshot=initial"""


def _offset(start: BinlogPosition) -> str:
    return f"""\
# Where the first start begins, unless a position was set: here the shop's tables were created, still empty.
consumer.offset={start}"""


def _fetch(addresses: Addresses, start: str, secrets: Path) -> str:
    source = addresses.source
    return f"""\
# The shop's binlog -> Kafka topic {TOPIC}.

# The task's id: its position is kept in ZooKeeper at /datas/task/{FETCH}/position/{SCHEMA}.
taskId={FETCH}

# ---- read -----------------------------------------------------------------------------------------------------------
consumer.consumerName=CanalFetch
consumer.converter=canalRow
consumer.source.address={source.host}:{source.port}
# The user needs: GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT.
consumer.source.username={source.user}
# The secret stays outside of this file: the line source=... of that one. ${{env:NAME}} works as well.
consumer.source.password=${{file:{secrets}:source}}
# The last part of the position's path. It does not filter: `filter` does.
consumer.source.database={SCHEMA}
# Regular expressions for schema.table, separated by commas; a backslash is written twice.
consumer.source.filter={SCHEMA}\\\\..*
# Our server id as a replica: no other replica of this source may have it.
consumer.source.slaveId=4101
{start}

# ---- write ----------------------------------------------------------------------------------------------------------
loader.loaderName=KAFKA_SYNC
loader.source.servers={addresses.kafka}
loader.source.topic={TOPIC}
# false: canalRow (canal's form, with types), true: oggJson (GoldenGate's form).
loader.source.oggJson=false
# A row's primary key decides its partition, and so which rows it stays in order with. Two tables are faster with a coarser key:
# all lines of an order stay together,
loader.source.partitionKey.{SCHEMA.upper()}.ORDER_LINES=ORDER_ID
# and things that change places with each other, as (aisle, place) is a unique key: in several partitions they would wait.
loader.source.partitionKey.{SCHEMA.upper()}.SHELF_PLACES=AISLE
"""


def _load(addresses: Addresses, target: Target, secrets: Path) -> str:
    tables = ",".join(f"{SCHEMA.upper()}.{table.name.upper()}" for table in TABLES)
    return f"""\
# Kafka topic {TOPIC} -> tables in {target.label}.

# The task's id: its position is kept in ZooKeeper at /datas/task/{target.task_id}/position/{TOPIC}.
taskId={target.task_id}

# ---- read -----------------------------------------------------------------------------------------------------------
consumer.consumerName=KafkaFetch
consumer.converter=canalRow
consumer.source.servers={addresses.kafka}
# Several topics are separated by commas; each has a position of its own.
consumer.source.topics={TOPIC}
# Where the first start begins, unless a position was set.
consumer.source.firstConsumeFrom=earliest
# Only these tables, by their name at the source. Without this line: all.
consumer.includes={tables}

# ---- write ----------------------------------------------------------------------------------------------------------
loader.loaderName=JdbcBatch
loader.source.url={target.url(addresses)}
loader.source.userName={target.database(addresses).user}
# The secret stays outside of this file: the line {target.name}=... of that one. ${{env:NAME}} works as well.
loader.source.password=${{file:{secrets}:{target.name}}}
# An update of a row that the target lacks becomes an insert.
loader.insertOnUpdateError=true

# ---- names: source,target -------------------------------------------------------------------------------------------
mapper[0].schema={SCHEMA.upper()},{SCHEMA}
# true: a column that the target lacks stops the task; false: it is left out.
mapper[0].forceMatched=true

# ---- Spark ----------------------------------------------------------------------------------------------------------
# Any setting of Spark can be given.
spark.driver.memory=1g
"""

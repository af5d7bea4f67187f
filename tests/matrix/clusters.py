"""Worlds with several servers in place of one: three Kafkas or ZooKeepers, a source with a replica,
and a Spark cluster."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from cdcbus.ops.stack import processes
from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.stack import up
from tests.integration.producer.reading import connect
from tests.matrix.cells import Cell, Fault, Victim
from tests.matrix.world import QUIET, World, stopped
from tests.support.clusters.spark_cluster import SETTINGS, executors
from tests.support.servers.mariadb_pair import MariadbPair, login, mariadb_pair
from tests.support.servers.three_servers import Three, three_brokers, three_zookeepers


class _WorldOfThree(World):
    """A killed server stays away for the length of the fault."""

    _three: Three

    def _hurt(self, cell: Cell, seconds: float) -> str:
        leader = self._three.leader()
        numbers = [leader, leader % 3 + 1] if cell.victim is Victim.QUORUM else [leader]
        if cell.fault is Fault.STOP:
            with stopped([self._three.pid(number) for number in numbers]):
                time.sleep(seconds)
            return ""
        for number in numbers:
            self._three.kill(number)
        time.sleep(seconds)
        for number in numbers:
            self._three.start(number)
        return ""


class BrokerWorld(_WorldOfThree):
    def _servers(self, stack: ExitStack) -> Addresses:
        self._three = stack.enter_context(three_brokers(self.name))
        return replace(super()._servers(stack), kafka=self._three.address)


class ZookeeperWorld(_WorldOfThree):
    def _servers(self, stack: ExitStack) -> Addresses:
        self._three = stack.enter_context(three_zookeepers())
        return replace(super()._servers(stack), zookeeper=self._three.address)


class PairWorld(World):
    """The fetch task has the addresses of both servers."""

    _pair: MariadbPair

    def _servers(self, stack: ExitStack) -> Addresses:
        self._pair = stack.enter_context(mariadb_pair())
        self._both = (self._pair.primary, self._pair.replica)
        return replace(super()._servers(stack), source=login(self._pair.primary))

    def _sources(self) -> list[Database]:
        return [login(server) for server in self._both]

    def prepare(self, cell: Cell) -> None:
        """Makes the server that is read the primary."""
        if self._is_read(login(self._pair.replica)):
            with self.writer.paused():
                self._pair.wait_for_replica()
                self._promote()
            self._pair.follow()
        super().prepare(cell)

    def _is_read(self, source: Database) -> bool:
        with connect(source) as connection, connection.cursor() as cursor:
            return bool(
                cursor.execute(
                    "SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
                )
            )

    def _promote(self) -> None:
        self._pair.promote()
        self.writer.source = login(self._pair.primary)

    def _hurt(self, cell: Cell, seconds: float) -> str:
        primary = self._pair.primary
        if cell.fault is Fault.CUT:
            line = self.source_ways[self._both.index(primary)].line
            line.cut()
            time.sleep(seconds)
            line.mend()
            return ""
        with ExitStack() as hurt:
            with self.writer.paused():
                # Nobody could send what only the lost server has.
                self._pair.wait_for_replica()
                if cell.fault is Fault.STOP:
                    hurt.enter_context(stopped([primary.pid]))
                else:
                    primary.kill()
                    hurt.callback(primary.start)
                self._promote()
            time.sleep(seconds)
        self._pair.follow()
        return ""


class SparkWorld(World):
    """One executor, so that it is the one that has work."""

    def _servers(self, _stack: ExitStack) -> Addresses:
        found = up(self.home, QUIET, spark=1)
        (self.folder / "cdcbus.properties").write_text(SETTINGS.format(master=found.spark, cores=1))
        return found

    def _pids(self, victim: Victim) -> list[int]:
        if victim is Victim.EXECUTOR:
            return executors(processes.pid(self.home / "spark-worker-1") or 0)
        return super()._pids(victim)


def world_of(cell: Cell) -> type[World]:
    match cell.victim:
        case Victim.BROKER_LEADER:
            return BrokerWorld
        case Victim.ZOOKEEPER_LEADER | Victim.QUORUM:
            return ZookeeperWorld
        case Victim.PRIMARY:
            return PairWorld
        case Victim.EXECUTOR:
            return SparkWorld
        case _:
            return World

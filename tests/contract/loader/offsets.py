"""Offsets come and go with the rows."""

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from cdcbus.plugins.contracts import (
    AppliedOffset,
    Details,
    Loader,
    OffsetTable,
    TableBatch,
    Writes,
)
from cdcbus.plugins.errors import (
    OffsetConflict,
    TargetMisconfigured,
    TargetTableUnfit,
)
from cdcbus.plugins.loaders import make_loader
from tests.contract.loader.base import LoaderBase
from tests.contract.target_server import TargetServer


class Offsets(LoaderBase):
    def test_offsets_come_and_go_with_the_rows(self, server: TargetServer, loader: Loader) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        assert loader.applied_offsets() == []
        stored = [
            AppliedOffset("Orders", 0, 5, 2**40),
            AppliedOffset("orders", 0, 2**33, 7),
            AppliedOffset("orders", 1, 0, 0),
        ]
        with loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("1", "1")])]))
            transaction.store_offset(first := AppliedOffset("Orders", 0, 4, 3), None)
            for offset, seen in zip(stored, (first, None, None), strict=True):
                transaction.store_offset(offset, seen)
        with pytest.raises(KeyError), loader.transaction() as transaction:
            transaction.write(TableBatch(table, writes=[Writes(("id", "v"), [("2", "2")])]))
            transaction.store_offset(AppliedOffset("Orders", 0, 6, 8), stored[0])
            raise KeyError
        assert set(loader.applied_offsets()) == set(stored)
        for each in stored:
            assert loader.applied_offsets(each.topic_partition) == [each]
        assert loader.applied_offsets(("orders", 2)) == []
        assert self.rows(server) == [(1, 1)]

    @pytest.mark.parametrize("noticed_by", ["fence", "look", "commit"])
    def test_a_table_of_offsets_dropped_meanwhile_is_an_empty_one_from_then_on(
        self, server: TargetServer, loader: Loader, noticed_by: str
    ) -> None:
        first = AppliedOffset("orders", 0, 5, 1)
        with loader.transaction() as transaction:
            transaction.store_offset(first, None)
        server.execute("DROP TABLE {schema}.cdcbus_position")
        with pytest.raises(TargetTableUnfit, match="cdcbus_position"):
            if noticed_by == "fence":
                loader.fence()
            elif noticed_by == "look":
                loader.applied_offsets()
            else:
                with loader.transaction() as transaction:
                    transaction.store_offset(AppliedOffset("orders", 0, 6, 1), first)
        assert (loader.fence(), loader.applied_offsets()) == ([], [])
        with pytest.raises(OffsetConflict), loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 6, 1), first)

    @pytest.mark.parametrize("seen", [None, AppliedOffset("orders", 0, 5, 1)])
    def test_of_two_that_have_seen_the_same_offset_one_commits(
        self, server: TargetServer, loader: Loader, seen: AppliedOffset | None
    ) -> None:
        """The second waits for the first, which it has no other way to know of, and is undone."""
        table = self.table(server, loader, "id int primary key, v int")
        if seen:
            with loader.transaction() as transaction:
                transaction.store_offset(seen, None)
        both_write = threading.Barrier(2)

        def apply(number: int) -> bool:
            try:
                with loader.transaction() as transaction:
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(str(number), "1")])])
                    )
                    both_write.wait(timeout=60)
                    transaction.store_offset(AppliedOffset("orders", 0, 6 + number, 2), seen)
            except OffsetConflict as error:
                assert (
                    f"{seen.next_offset if seen else 'no offset'} of orders[0] for task contract"
                    in str(error)
                )
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(apply, range(2)))
        winner = done.index(True)
        assert done.count(True) == 1
        assert loader.applied_offsets() == [AppliedOffset("orders", 0, 6 + winner, 2)]
        assert self.rows(server) == [(winner, 1)]

    def test_a_fence_ends_what_has_seen_an_earlier_epoch_however_often_it_commits(
        self, server: TargetServer, loader: Loader
    ) -> None:
        with loader.transaction() as transaction:
            for partition in (0, 1):
                transaction.store_offset(AppliedOffset("orders", partition, 5, 1), None)
        first = loader.fence()
        assert first is not None and first == [
            AppliedOffset("orders", partition, 5, 1, 1) for partition in (0, 1)
        ]
        with loader.transaction() as transaction:
            transaction.store_offset(later := replace(first[0], next_offset=6), first[0])
        second = loader.fence()
        assert second is not None and {*second} == {
            replace(later, epoch=2),
            replace(first[1], epoch=2),
        }
        for seen in (later, first[1]):  # also one that has not moved
            with pytest.raises(OffsetConflict), loader.transaction() as transaction:
                transaction.store_offset(replace(seen, next_offset=9), seen)
        assert {*loader.applied_offsets()} == {*second}
        with loader.transaction() as transaction:
            transaction.store_offset(replace(second[0], next_offset=9), second[0])

    def test_a_fence_waits_for_a_transaction_under_way(
        self, server: TargetServer, loader: Loader
    ) -> None:
        first = AppliedOffset("orders", 0, 5, 1)
        with loader.transaction() as transaction:
            transaction.store_offset(first, None)
        with ThreadPoolExecutor(1) as pool:
            with loader.transaction() as transaction:
                transaction.store_offset(replace(first, next_offset=6), first)
                fencing = pool.submit(loader.fence)
                with pytest.raises(TimeoutError):
                    fencing.result(0.5)
            assert fencing.result(30) == [AppliedOffset("orders", 0, 6, 1, 1)]

    def test_details_of_other_versions_are_kept(self, server: TargetServer, loader: Loader) -> None:
        details = Details.from_json('{"topicId":"a","own":{"b":[1]},"x":"é"}')
        with loader.transaction() as transaction:
            transaction.store_offset(
                first := AppliedOffset("orders", 0, 5, 1, details=details), None
            )
        assert loader.applied_offsets() == [first]
        with loader.transaction() as transaction:
            transaction.store_offset(
                replace(first, next_offset=6, details=replace(details, topic_id="c")), first
            )
        [(text,)] = server.rows("SELECT details FROM {schema}.cdcbus_position")
        assert json.loads(str(text)) == {"topicId": "c", "own": {"b": [1]}, "x": "é"}

    def old_offset_table(self, server: TargetServer) -> None:
        """As versions before had it, with a row of the tasks `contract` and `poor`."""
        loader = make_loader("JdbcBatch", server.target())
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        loader.close()
        for column in ("epoch", "details"):
            server.execute(f"ALTER TABLE {{schema}}.cdcbus_position DROP COLUMN {column}")

    def test_a_table_of_earlier_versions_is_completed(self, server: TargetServer) -> None:
        self.old_offset_table(server)
        dry, loader = (
            make_loader("JdbcSqlDebug", server.target()),
            make_loader("JdbcBatch", server.target()),
        )
        assert dry.fence() == dry.applied_offsets() == [AppliedOffset("orders", 0, 5, 1)]
        assert loader.fence() == [AppliedOffset("orders", 0, 5, 1, 1)]
        for each in (dry, loader):
            each.close()

    def test_a_table_of_earlier_versions_that_may_not_be_altered_is_refused_with_the_statement(
        self, server: TargetServer
    ) -> None:
        self.old_offset_table(server)
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        for _ in range(2):
            with pytest.raises(
                TargetMisconfigured,
                match=r"cdcbus_position lacks column epoch, .* run ALTER TABLE .* ADD ",
            ):
                poor.fence()
        poor.close()

    def test_without_an_offset_table_there_is_nothing_to_fence(self, server: TargetServer) -> None:
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        assert poor.fence() is None
        poor.close()

    def test_each_task_has_offsets_of_its_own(self, server: TargetServer, loader: Loader) -> None:
        other = make_loader("JdbcBatch", server.target(task_id="other"))
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert other.applied_offsets() == []
        other.close()

    def test_many_partitions_may_start_at_once_where_nothing_is_yet(
        self, server: TargetServer, loader: Loader
    ) -> None:
        others = [
            make_loader("JdbcBatch", server.target(task_id=f"task {number}")) for number in range(4)
        ]
        everybody = threading.Barrier(8)

        def run(partition: int) -> None:
            everybody.wait(timeout=30)
            with others[partition % 4].transaction() as transaction:
                transaction.store_offset(AppliedOffset("orders", partition, partition, 1), None)

        partitions = [threading.Thread(target=run, args=(partition,)) for partition in range(8)]
        for partition in partitions:
            partition.start()
        for partition in partitions:
            partition.join(timeout=60)
        assert [
            sorted(offset.partition for offset in other.applied_offsets()) for other in others
        ] == [[0, 4], [1, 5], [2, 6], [3, 7]]
        for other in others:
            other.close()

    def test_without_the_right_to_make_its_table_it_goes_on_and_says_so_once(
        self, server: TargetServer, loader: Loader, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = self.table(server, loader, "id int primary key, v int")
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        with caplog.at_level(logging.WARNING):
            for number in ("1", "2"):
                with poor.transaction() as transaction:
                    transaction.write(
                        TableBatch(table, writes=[Writes(("id", "v"), [(number, number)])])
                    )
                    transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert poor.applied_offsets() == []
        assert self.rows(server) == [(1, 1), (2, 2)]
        [message] = [record.getMessage() for record in caplog.records]
        assert message.startswith("task poor keeps no offsets in the target: ")
        poor.close()

    def test_an_executor_that_finds_no_table_for_offsets_writes_nothing_where_its_driver_has_one(
        self, server: TargetServer, loader: Loader
    ) -> None:
        """Servers can give an account other rights from each host: MySQL shows it no table then."""
        target = replace(server.without_rights_to_create(), needs_offsets=True)
        poor = make_loader("JdbcBatch", target)
        for _ in range(2):
            with pytest.raises(TargetMisconfigured, match=r"cdcbus_position.* on host "):
                poor.applied_offsets()
            with pytest.raises(TargetMisconfigured), poor.transaction():
                pytest.fail("rows could be written")
        poor.close()
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)

    def test_a_look_at_the_offset_table_makes_none(
        self, server: TargetServer, loader: Loader
    ) -> None:
        assert loader.offset_table() == OffsetTable(False, True)
        assert loader.offset_table() == OffsetTable(False, True)
        with loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("orders", 0, 5, 1), None)
        assert loader.offset_table() == OffsetTable(True, True, [AppliedOffset("orders", 0, 5, 1)])

    def test_a_look_tells_that_the_offset_table_cannot_be_made(self, server: TargetServer) -> None:
        poor = make_loader("JdbcBatch", server.without_rights_to_create())
        assert poor.offset_table() == OffsetTable(False, False)
        poor.close()

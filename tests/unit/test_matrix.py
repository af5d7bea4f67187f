from collections import Counter
from pathlib import Path

from cdcbus.plugins.task_status import State
from tests.matrix.cells import LIKELY, Cell, Fault, Load, Victim, all_cells, every_combination
from tests.matrix.clusters import world_of
from tests.matrix.documented import Seen, lasting, undocumented
from tests.matrix.outcomes import Outcome, from_json, left_out, table, to_json
from tests.matrix.world import World

DOCS = Path(__file__).parents[2] / "docs"


def test_each_part_is_hurt_in_each_way_that_it_can_be() -> None:
    found = Counter(cell.victim for cell in all_cells())
    assert found[Victim.FETCH] == found[Victim.QUORUM] == 2 * len(Load)
    assert found[Victim.KAFKA] == 4 * len(Load)
    assert found[Victim.TARGET] == 5 * len(Load)
    assert found[Victim.PRIMARY] == 3 * len(Load)
    assert found[Victim.EXECUTOR] == 4
    assert Cell(Victim.KAFKA, Fault.CUT, Load.DDL) in all_cells()
    assert Cell(Victim.FETCH, Fault.CUT, Load.DDL) not in all_cells()


def test_the_table_has_a_row_for_a_fault_and_a_column_for_a_load() -> None:
    good = Outcome(Cell(Victim.NODE, Fault.KILL, Load.STEADY), 7.4)
    bad = Outcome(Cell(Victim.NODE, Fault.KILL, Load.DDL), 400, ("t differs", "load is ERROR"))
    short = Outcome(Cell(Victim.EXECUTOR, Fault.KILL, Load.GEARS), 9, (), 8, by_states=False)
    assert table([bad, good, short]).splitlines() == [
        "| | idle | steady load | a huge transaction | DDL | a snapshot | change of gear |",
        "|---|---|---|---|---|---|---|",
        "| Spark executor killed | - |  | - | - | - | 9 s (8)* |",
        "| node killed |  | 7 s |  | t differs; load is ERROR |  |  |",
    ]


def test_outcomes_are_kept_with_the_reason_for_each_cell_that_is_left_out() -> None:
    bad = Outcome(Cell(Victim.NODE, Fault.KILL, Load.DDL), 400.5, ("t differs",), 8, False)
    text = to_json([bad])
    assert from_json(text) == [bad]
    assert text.count('"left_out": "') == sum(bool(cell.why_not) for cell in every_combination())
    assert "| source with a replica | slow | a slow source is not left" in left_out()


def test_the_tables_of_the_docs_are_those_of_the_outcomes_beside_them() -> None:
    found = from_json((DOCS / "faults.json").read_text(encoding="utf-8"))
    page = (DOCS / "faults.md").read_text(encoding="utf-8")
    assert table(found) in page
    assert left_out() in page


def test_the_cells_of_the_pipeline_are_ten_of_all_with_each_load_and_each_victim() -> None:
    assert len(set(LIKELY)) == 10
    assert set(LIKELY) <= set(all_cells())
    assert {world_of(cell) for cell in LIKELY} == {World}
    assert {cell.victim for cell in LIKELY} == {
        cell.victim for cell in all_cells() if world_of(cell) is World
    }
    assert {cell.load for cell in LIKELY} == set(Load) - {Load.IDLE}


def test_a_cell_tells_of_missing_states_and_of_alarms_that_nobody_documents() -> None:
    cut = Cell(Victim.KAFKA, Fault.CUT, Load.STEADY)
    seen = Seen({("load", State.RETRYING), ("fetch", State.WORKING)}, {("load", "silent")})
    assert list(undocumented(cut, 30, seen)) == [
        "fetch was never RETRYING",
        "load had no alarm retrying",
        "load had the alarm silent",
    ]
    # too short for the fetch task, and for a look at alarms
    assert list(undocumented(cut, 8, Seen({("load", State.RETRYING)}))) == []
    ended = Seen({("fetch", State.ERROR)})
    assert list(undocumented(Cell(Victim.NODE, Fault.KILL, Load.DDL), 30, ended)) == [
        "fetch was ERROR"
    ]


def test_only_a_restored_target_has_lost_rows() -> None:
    lost = Seen(alarms={("load", "target-behind")})
    restored = Cell(Victim.TARGET, Fault.RESTORE, Load.STEADY)
    assert list(undocumented(restored, 30, lost)) == []
    assert list(undocumented(restored, 30, Seen())) == ["load had no alarm target-behind"]
    assert list(undocumented(Cell(Victim.TARGET, Fault.KILL, Load.DDL), 30, lost)) == [
        "load had the alarm target-behind"
    ]


def test_an_alarm_that_the_cell_before_may_bring_can_come_late() -> None:
    seen = Seen(alarms={("load", "late-records")})
    killed = Cell(Victim.TARGET, Fault.KILL, Load.DDL)
    assert list(undocumented(killed, 30, seen)) == ["load had the alarm late-records"]
    _, may = lasting(Cell(Victim.FETCH, Fault.STOP, Load.DDL))
    assert list(undocumented(killed, 30, seen, may)) == []


def test_a_failover_is_noticed_and_may_be_over_before_an_alarm() -> None:
    killed = Cell(Victim.PRIMARY, Fault.KILL, Load.STEADY)
    assert list(undocumented(killed, 30, Seen({("fetch", State.RETRYING)}))) == []
    assert list(undocumented(killed, 30, Seen())) == ["fetch was never RETRYING"]


def test_a_process_may_send_records_after_its_lock_is_lost_with_the_quorum() -> None:
    late = Seen(alarms={("load", "late-records")})
    assert list(undocumented(Cell(Victim.QUORUM, Fault.KILL, Load.STEADY), 30, late)) == []
    assert list(undocumented(Cell(Victim.ZOOKEEPER_LEADER, Fault.KILL, Load.STEADY), 30, late)) == [
        "load had the alarm late-records"
    ]


def test_a_task_may_be_restarted_too_often_in_cells_that_restart_it() -> None:
    often = Seen(alarms={("fetch", "restarts")})
    assert list(undocumented(Cell(Victim.FETCH, Fault.KILL, Load.IDLE), 30, often)) == []
    assert list(undocumented(Cell(Victim.CONSUMER, Fault.KILL, Load.IDLE), 30, often)) == [
        "fetch had the alarm restarts"
    ]

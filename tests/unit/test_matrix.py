from tests.matrix.cells import LIKELY, Cell, Fault, Load, Outcome, Victim, all_cells, table


def test_each_part_is_hurt_in_each_way_that_it_can_be() -> None:
    cells = set(all_cells())
    assert len(cells) == len(Load) * (2 * len(Victim) + 2 * 3)
    assert Cell(Victim.SOURCE, Fault.CUT, Load.DDL) in cells
    assert Cell(Victim.FETCH, Fault.CUT, Load.DDL) not in cells


def test_the_table_has_a_row_for_a_fault_and_a_column_for_a_load() -> None:
    good = Outcome(Cell(Victim.NODE, Fault.KILL, Load.STEADY), 7.4)
    bad = Outcome(Cell(Victim.NODE, Fault.KILL, Load.DDL), 400, ("t differs", "load is ERROR"))
    assert table([bad, good]).splitlines() == [
        "| | idle | steady load | a huge transaction | DDL | a snapshot | change of gear |",
        "|---|---|---|---|---|---|---|",
        "| node killed |  | equal after 7 s |  | t differs; load is ERROR |  |  |",
    ]


def test_the_cells_of_the_pipeline_are_ten_of_all_with_each_load_and_each_victim() -> None:
    assert len(set(LIKELY)) == 10
    assert set(LIKELY) <= set(all_cells())
    assert {cell.victim for cell in LIKELY} == set(Victim)
    assert {cell.load for cell in LIKELY} == set(Load) - {Load.IDLE}

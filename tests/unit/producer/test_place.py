"""Places in a binlog."""

from __future__ import annotations

from cdcbus.producer.place import Place


def test_places_are_in_the_order_of_the_files_numbers() -> None:
    places = [Place("mysql-bin.000002", 4), Place("mysql-bin.000002", 1000), Place("mysql-bin.999999", 4), Place("mysql-bin.1000000", 4)]
    assert sorted([places[2], places[0], places[3], places[1]]) == places
    assert places[0] <= places[0] < places[1]
    assert str(places[0]) == "mysql-bin.000002:4"

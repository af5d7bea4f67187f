"""What every SchemaStore promises. Mix it into a test class that provides `make`, which gives
stores that share their entries."""

from __future__ import annotations

from collections.abc import Callable

from cdcbus.plugins.contracts import SchemaStore

MakeStore = Callable[[], SchemaStore]


class SchemaStoreContract:
    def test_a_new_store_is_empty(self, make: MakeStore) -> None:
        assert make().load() == {}

    def test_what_is_saved_is_loaded_by_the_next_store(self, make: MakeStore) -> None:
        make().save({"shop.orders": "täble \N{GRINNING FACE}", "shop.%2Fodd%2E": "2"})
        assert make().load() == {"shop.orders": "täble \N{GRINNING FACE}", "shop.%2Fodd%2E": "2"}

    def test_an_entry_takes_the_place_of_the_one_of_its_name(self, make: MakeStore) -> None:
        store = make()
        store.save({"a": "1", "b": "1"})
        store.save({"a": "2", "c": "3"})
        assert make().load() == {"a": "2", "b": "1", "c": "3"}

    def test_none_deletes_whether_it_is_there_or_not(self, make: MakeStore) -> None:
        store = make()
        store.save({"a": "1", "b": "1"})
        store.save({"a": None, "never": None, "c": "1"})
        assert make().load() == {"b": "1", "c": "1"}
        store.save({"a": "again"})
        assert make().load()["a"] == "again"

    def test_thousands_of_entries_and_large_ones_are_kept(self, make: MakeStore) -> None:
        entries: dict[str, str | None] = {f"shop.t{number}": str(number) for number in range(5000)}
        entries["shop.wide"] = "x" * 900_000
        make().save(entries)
        assert make().load() == entries

    def test_nothing_to_save_is_fine(self, make: MakeStore) -> None:
        make().save({})
        assert make().load() == {}

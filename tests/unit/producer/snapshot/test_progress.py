"""What is stored of a snapshot is read again."""

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState, Wish, WishKind


def test_progress_is_read_as_it_was_written() -> None:
    progress = TableProgress(
        TableState.PAUSED,
        5,
        key=("id", "a"),
        shape="0a",
        after=("1", "'a'"),
        until=("2",),
        where="id",
        was_whole=True,
    )
    assert TableProgress.from_fields(progress.to_fields() | {"schema": "s"}) == progress


def test_a_part_says_whether_the_table_was_read_whole_and_one_that_does_not_is_not_known() -> None:
    """Earlier versions wrote the same for a part of a table that had been read whole, and not."""
    part = TableProgress(TableState.DONE, 2, where="id > 3")
    assert part.to_fields()["whole"] is False
    assert TableProgress.from_fields(part.to_fields()) == part
    assert part.is_part
    unknown = TableProgress.from_fields({"state": "done", "rows": 2, "where": "id > 3"})
    assert (unknown.was_whole, unknown.is_part, unknown.may_be_part) == (None, False, True)
    assert TableProgress.from_fields(unknown.to_fields()) == unknown
    whole = TableProgress.from_fields({"state": "done", "rows": 2})
    assert whole.is_whole and "whole" not in whole.to_fields()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"state": "odd"},
        {"state": "done", "after": 5},
        {"state": "done", "key": 5},
        {"state": "done", "rows": "many"},
        {"state": "done", "started": None},
    ],
)
def test_what_is_no_progress_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        TableProgress.from_fields(fields)


def test_wishes_name_tables_in_any_case_or_all_of_them() -> None:
    wish = Wish(WishKind.PAUSE, ("Shop.ORDERS",))
    assert Wish.from_fields(wish.to_fields()) == wish
    assert wish.is_for(TableId("shop", "orders"))
    assert not wish.is_for(TableId("shop", "order"))
    assert Wish(WishKind.STOP).is_for(TableId("any", "table"))
    with pytest.raises(ValueError, match="not a wish"):
        Wish.from_fields({"kind": "start"})

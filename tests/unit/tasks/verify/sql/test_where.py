"""A condition for both sides, or a sentence on why not."""

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.verify.sql.where import condition

TABLE = TableId("shop", "orders")
NAMES = {"id": "no", "State": "state", "secret": None}


def test_columns_get_their_names_on_each_side() -> None:
    own, theirs = condition("ID > 5 and `state` IN ('a''b', 'c')", TABLE, NAMES, "postgresql")
    assert own == "`id` > 5 and `State` IN ( 'a''b' , 'c' )"
    assert theirs == "\"no\" > 5 and \"state\" IN ( 'a''b' , 'c' )"


def test_without_a_condition_all_rows_are_meant() -> None:
    assert condition("", TABLE, NAMES, "mysql") == ("1 = 1", "1 = 1")


def test_a_parenthesis_in_a_text_is_none() -> None:
    assert condition("(state = ')')", TABLE, NAMES, "mysql")[0] == "( `State` = ')' )"


@pytest.mark.parametrize(
    "text",
    [
        "id = sleep(5)",
        "id = 1; DROP TABLE x",
        "other = 1",
        "secret = 'x'",
        "state = 'a\\' OR 1=1 --'",
        'state = "a"',
        "id = 1 /* x */",
        "id = (SELECT 1)",
        "id = 1) OR (id = 2",
        "(id = 1",
        "id = 1)",
        "state = 'a",
    ],
)
def test_what_may_mean_something_else_there_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--where"):
        condition(text, TABLE, NAMES, "postgresql")

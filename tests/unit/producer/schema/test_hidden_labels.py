"""Labels with characters that information_schema does not show; what the servers answer is in
tests/integration/producer/schema."""

import pytest

from cdcbus.producer.ddl.table_schema import TableColumn
from cdcbus.producer.schema.hidden_labels import has_hidden_labels, labels_query, shown_labels


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (TableColumn("c", "enum('a','?')", "utf8mb4"), True),
        (TableColumn("c", "set('why?')", "utf16"), True),
        (TableColumn("c", "enum('a','?')", "utf8mb3"), False),
        (TableColumn("c", "enum('a','?')", "latin1"), False),
        (TableColumn("c", "enum('a','b')", "utf8mb4"), False),
        (TableColumn("c", "varchar(3)", "utf8mb4"), False),
    ],
)
def test_only_a_question_mark_in_a_larger_character_set_may_stand_for_another_character(
    column: TableColumn, expected: bool
) -> None:
    assert has_hidden_labels(column) is expected


@pytest.mark.parametrize(
    ("type_", "numbers"),
    [("enum('a','why?','?')", [(1, 2), (2, 3)]), ("set('a','why?','?')", [(1, 2), (2, 4)])],
)
def test_only_labels_with_a_question_mark_are_asked_for(
    type_: str, numbers: list[tuple[int, int]]
) -> None:
    column, labels = TableColumn("c", type_), ("a", "why?", "?")
    query = labels_query("`s`.`t`", "`c`", column, labels, is_mariadb=False)
    selects = [f"SELECT {place} AS place, {number} AS number" for place, number in numbers]
    assert f"({' UNION ALL '.join(selects)}) AS numbers" in query
    variables = " ".join(
        f"DECLARE v{place} TYPE OF `s`.`t`.`c` DEFAULT {number};" for place, number in numbers
    )
    assert labels_query("`s`.`t`", "`c`", column, labels, is_mariadb=True) == (
        f"BEGIN NOT ATOMIC {variables} SELECT 1 AS place, v1 AS label UNION ALL "
        "SELECT 2 AS place, v2 AS label; END"
    )


def test_the_last_bit_of_a_set_is_a_sign() -> None:
    labels = [f"{number}?" for number in range(64)]
    query = labels_query("t", "c", TableColumn("c", "set(...)"), labels, is_mariadb=False)
    assert "SELECT 62 AS place, 4611686018427387904 AS number" in query
    assert "SELECT 63 AS place, -9223372036854775808 AS number" in query


def test_the_labels_found_replace_those_shown() -> None:
    labels = ("a", "why?", "?", "?")
    assert shown_labels(labels, [(1, "why?"), ("2", "😀")]) == ("a", "why?", "😀", "?")


@pytest.mark.parametrize(
    "answer",
    [(1, "2"), (1, "who😀"), (1, "why??"), (1, None), (1, 2), (2, "a"), ("", "a"), (-1, "a")],
)
def test_an_answer_that_is_not_what_is_shown_is_none(answer: tuple[object, object]) -> None:
    assert shown_labels(("a", "why?"), [answer]) is None

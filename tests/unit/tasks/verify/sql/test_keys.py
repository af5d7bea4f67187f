"""Conditions on keys."""

from cdcbus.tasks.verify.sql.keys import beyond, up_to


def test_a_composite_key_is_passed_in_its_order() -> None:
    assert beyond(["a", "b"], ["1", "2"]) == "(a > 1 OR (a = 1 AND b > 2))"
    assert up_to(["a", "b"], ["1", "2"]) == "(a < 1 OR (a = 1 AND b <= 2))"

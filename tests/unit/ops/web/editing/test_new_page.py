"""The questions of a new task as steps of a form: what is asked where, defaults, what is wrong."""

from __future__ import annotations

import pytest

from cdcbus.ops.web.editing.new_page import FROM, TO, answered, part_of
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.editing.new_task import ROUTES, TO_KAFKA, new_text, questions_of

GIVEN = {
    "id": "1084",
    "source": "db:3306",
    "source_user": "cdc",
    "servers": "kafka:9092",
    "topic": "shop",
    "tables": "shop.orders",
    "target": "other:5432",
    "target_topic": "copy",
    "target_database": "store",
    "target_user": "loader",
    "source_schema": "shop",
    "target_schema": "",
}


def wrong(route: str, **given: str) -> dict[str, str]:
    _, fields = answered(route, GIVEN | given)
    return {field.question.name: field.wrong for field in fields if field.wrong}


@pytest.mark.parametrize("route", [each for each in ROUTES if each != "kafka->kafka"])
def test_the_answers_make_a_text_without_errors(route: str) -> None:
    answers, fields = answered(route, GIVEN)
    assert [field.wrong for field in fields if field.wrong] == []
    text = new_text(answers, "1084.properties")
    inspection = inspect_text(text, {"SOURCE_PASSWORD": "x", "TARGET_PASSWORD": "x"})
    assert inspection.task is not None
    assert inspection.task.task_id == "1084"


@pytest.mark.parametrize("route", ROUTES)
def test_each_question_belongs_to_one_end(route: str) -> None:
    parts = {question.name: part_of(question, route) for question in questions_of(route)}
    assert parts["id"] == FROM
    assert (parts["servers"] == TO) is (route == TO_KAFKA)
    assert set(parts.values()) == {FROM, TO}


def test_what_is_left_empty_has_its_default_unless_it_may_be_empty() -> None:
    answers, _ = answered("kafka->mysql", GIVEN | {"tables": "", "target": ""})
    assert (answers["target_schema"], answers["target"]) == ("store", "127.0.0.1:3306")
    assert (answers["tables"], answers["source_schema"]) == ("", "shop")


def test_what_nobody_has_said_is_wrong() -> None:
    assert "topics" in wrong("kafka->mysql", topic="")["topic"]
    assert set(wrong("kafka->postgresql", target_database=" ", id="a/b")) == {
        "target_database",
        "id",
    }
    assert "SCHEMA.TABLE" in wrong(TO_KAFKA, tables="orders")["tables"]


def test_where_no_schema_is_renamed_none_is_asked_for() -> None:
    assert wrong("kafka->kafka", source_schema="", target_schema="") == {}
    assert set(wrong("kafka->kafka", target_schema="")) == {"target_schema"}

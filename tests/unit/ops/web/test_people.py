"""Roles over HTTP: what each person may look at and change, by token and by session."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from cdcbus.ops.web.access.guesses import Guesses
from cdcbus.tasks.control.people import Person, Role
from tests.unit.ops.web.test_auth import BUS, SAME, TOKEN, ask

READER = Person("rita", "token-of-rita-012345", Role.READ)
OPERATOR = Person("olaf", "token-of-olaf-012345", Role.OPERATE, ("shop-*",))
ADMINISTRATOR = Person("anna", "token-of-anna-012345", Role.ADMINISTER)
PEOPLE = replace(BUS, host="10.0.0.7", people=(READER, OPERATOR, ADMINISTRATOR), guesses=Guesses())
ALONE = replace(PEOPLE, host="10.0.0.8", token=None)


def as_person(person: Person, method: str, path: str) -> httpx.Response:
    headers = {"host": "cdcbus.example", "authorization": f"Bearer {person.token}"}
    return ask(PEOPLE, method, path, headers)


@pytest.mark.parametrize(
    ("person", "method", "path", "is_allowed"),
    [
        (READER, "GET", "/api/openapi.json", True),
        (READER, "POST", "/api/tasks/shop-1/nothing", False),
        (READER, "DELETE", "/api/openapi.json", False),
        (READER, "GET", "/tasks/x/nothing/at", True),
        (OPERATOR, "POST", "/api/tasks/shop-1/nothing", True),
        (OPERATOR, "POST", "/api/tasks/bank-1/nothing", False),
        (OPERATOR, "GET", "/api/tasks/bank-1/nothing", False),
        (OPERATOR, "GET", "/live/tasks/bank-1", False),
        (OPERATOR, "GET", "/letters/bank-1", False),
        (OPERATOR, "POST", "/letters/bank-1/nothing", False),
        (OPERATOR, "POST", "/tasks/bank%2D1/nothing", False),
        (OPERATOR, "POST", "/alarms/silence", False),  # it may name any task
        (OPERATOR, "POST", "/api/nodes/n1/nothing", False),
        (ADMINISTRATOR, "POST", "/api/nodes/n1/nothing", True),
        (ADMINISTRATOR, "POST", "/api/tasks/bank-1/nothing", True),
    ],
)
def test_who_may_do_what(person: Person, method: str, path: str, is_allowed: bool) -> None:
    answer = as_person(person, method, path)
    assert (answer.status_code != 403) is is_allowed, answer.text
    if not is_allowed:
        assert person.name in answer.json()["error"]
        assert person.token not in answer.text


def log_in(name: str, token: str) -> httpx.Response:
    return ask(PEOPLE, "POST", "/login", SAME, data={"name": name, "token": token})


def test_a_session_is_that_of_the_token_and_nobody_takes_another_name() -> None:
    answer = log_in("olaf", OPERATOR.token)
    assert answer.status_code == 303
    session = {**SAME, "cookie": answer.headers["set-cookie"].partition(";")[0]}
    assert ask(PEOPLE, "POST", "/api/tasks/shop-1/nothing", session).status_code == 404
    assert ask(PEOPLE, "POST", "/api/nodes/n1/nothing", session).status_code == 403
    for name, token in (("anna", OPERATOR.token), ("olaf", TOKEN), ("else", READER.token)):
        assert "not of one person" in log_in(name, token).text
    assert log_in("else", TOKEN).status_code == 303


def test_people_are_enough_where_the_node_has_no_token_of_its_own() -> None:
    headers = {"host": "cdcbus.example", "authorization": f"Bearer {READER.token}"}
    assert ask(ALONE, "GET", "/api/openapi.json", headers).status_code == 200
    other = {**headers, "authorization": f"Bearer {TOKEN}"}
    assert ask(ALONE, "GET", "/api/openapi.json", other).status_code == 401


def test_no_token_is_in_what_a_bus_looks_like() -> None:
    assert not any(each.token in repr(PEOPLE) for each in PEOPLE.everybody)

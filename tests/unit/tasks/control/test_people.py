"""People in the settings: what is read, what is refused, whose tasks are whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from cdcbus.tasks.control.people import Person, Role

ADA, BOB = "token-of-ada-0123456", "token-of-bob-0123456"


def read(folder: Path, text: str) -> BusSettings:
    file = folder / "cdcbus.properties"
    file.write_text(text, encoding="utf-8")
    return read_bus_settings({}, file, {"ADA": ADA})


def test_people_have_a_role_and_tasks(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "http.person.ada.token=${env:ADA}\nhttp.person.ada.role=operate\n"
        f"http.person.ada.tasks=shop-*, 51\nhttp.person.b.o@b.token={BOB}\n",
    )
    ada, bob = settings.http_people
    assert ada == Person("ada", ADA, Role.OPERATE, ("shop-*", "51"))
    assert bob == Person("b.o@b", BOB, Role.READ)
    assert settings.errors() == []
    assert ADA not in repr(ada)
    assert [ada.has(each) for each in ("shop-1", "51", "511", "Shop-1")] == [
        True,
        True,
        False,
        False,
    ]
    assert bob.has("anything")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("http.person.ada.role=read\n", "http.person.ada has no token"),
        (f"http.person.ada.token={ADA}\nhttp.person.ada.role=king\n", "expected one of read, "),
        ("http.person.ada.token=short\n", "expected 16 or more characters"),
        (f"http.person.a.token={ADA}\nhttp.person.b.token={ADA}\n", "give each person another"),
        (f"http.token={ADA}\nhttp.person.b.token={ADA}\n", "is the same as http.token"),
    ],
)
def test_what_does_not_say_who_it_is_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    settings = read(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        assert settings.http_people
    assert sentence in str(refused.value)
    assert any(sentence in each for each in settings.errors())
    assert ADA not in str(refused.value)


def test_a_misspelt_key_of_a_person_is_warned_of(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, "http.person.ada.rol=read\n").warnings
    assert "http.person.ada.rol: unknown key" in warning

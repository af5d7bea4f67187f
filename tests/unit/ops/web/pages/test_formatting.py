"""Numbers and times as people read them."""

from __future__ import annotations

import pytest

from cdcbus.ops.web.pages import formatting

NOW = 1_795_281_300.0  # 2026-11-21 17:15:00 UTC


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (1234567, "1,234,567"),
        (0.25, "0.25"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (5.0, "5"),
    ],
)
def test_counts(value: float | None, text: str) -> None:
    assert formatting.count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.00123, "1.2 ms"),
        (0.0987, "98.7 ms"),
        (0.254, "0.25 s"),
        (42, "42 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7380, "2 h 3 min"),
        (86400 * 5 + 3600, "5 d 1 h"),
    ],
)
def test_durations_have_the_two_largest_units(seconds: float | None, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("octets", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (20e6, "20 MB"), (3.5e12, "3.5 TB")],
)
def test_sizes(octets: float, text: str) -> None:
    assert formatting.size(octets) == text


def test_a_time_is_relative_and_has_its_whole_text() -> None:
    told = str(formatting.ago("2026-11-21 17:13:55", NOW))
    assert (
        told == '<time datetime="2026-11-21T17:13:55Z" title="2026-11-21 17:13:55 UTC">1 min 5 s '
        "ago</time>"
    )
    assert str(formatting.ago("<odd>", NOW)) == "&lt;odd&gt;"
    assert str(formatting.ago("", NOW)) == "–"


def test_plurals() -> None:
    assert [formatting.plural(number, "task") for number in (0, 1, 1200)] == [
        "0 tasks",
        "1 task",
        "1,200 tasks",
    ]


@pytest.mark.parametrize("separator", [" ", ","])
def test_a_long_text_is_parted_between_words_and_nothing_of_it_is_lost(separator: str) -> None:
    text = separator.join(f"b{number}:9092" for number in range(100))
    head, rest = formatting.parted(text)
    assert 200 < len(head) <= formatting.HEAD
    assert head.endswith(f":9092{separator}")
    assert head + rest == text


def test_a_long_text_without_blanks_is_parted_all_the_same() -> None:
    assert list(map(len, formatting.parted("x" * 1000))) == [240, 760]


def test_a_short_text_is_whole() -> None:
    assert formatting.parted("a b") == ("a b", "")

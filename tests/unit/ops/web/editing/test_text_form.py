"""A task's text as a form shows it."""

from __future__ import annotations

from cdcbus.ops.web.editing.text_form import difference, lines_of, plain
from cdcbus.tasks.config.diagnostics import Diagnostics


def test_findings_stand_at_their_lines_the_gravest_first() -> None:
    found = Diagnostics()
    found.note(2, "b", "a note")
    found.error(2, "b", "an error")
    found.warning(0, "", "about the whole")
    lines = lines_of("a=1\nb=2\n", found)
    assert [(line.number, line.worst) for line in lines] == [(1, ""), (2, "error")]
    assert [each.sentence for each in lines[1].findings] == ["an error", "a note"]


def test_a_difference_holds_changed_lines_and_what_is_around_them() -> None:
    before = "".join(f"k{number}=1\n" for number in range(20))
    after = before.replace("k3=1", "k3=2").replace("k15=1\n", "")
    lines = difference(before, after)
    assert [line.text for line in lines if line.kind == "added"] == ["k3=2"]
    assert [line.text for line in lines if line.kind == "removed"] == ["k3=1", "k15=1"]
    assert [line.kind for line in lines].count("gap") == 1
    assert "k9=1" not in [line.text for line in lines]
    assert difference(before, before) == []


def test_what_a_browser_sends_has_the_line_ends_of_a_file() -> None:
    assert plain("a=1\r\nb=2\r\n\r\n") == "a=1\nb=2\n"

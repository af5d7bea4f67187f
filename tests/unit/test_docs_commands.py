"""No command of the docs is left without a test: each page with commands has a reader in
tests/integration/docs, and what that does not type is run by another test, or cannot be run here."""

from __future__ import annotations

import re

import pytest

from tests.integration.docs.elsewhere import RUN_BY, RUN_NAMED, why_not_here
from tests.integration.docs.reading import READ, ROOT, commands, names

READERS = "\n".join(
    file.read_text(encoding="utf-8") for file in (ROOT / "tests/integration/docs").glob("test_*.py")
)


@pytest.mark.parametrize("page", READ)
def test_each_page_with_commands_has_a_reader(page: str) -> None:
    left = [line for line in commands(page) if not why_not_here(line)]
    assert not left or f'read("{page}"' in READERS, left


@pytest.mark.parametrize("file", RUN_BY)
def test_what_others_run_is_there(file: str) -> None:
    assert (ROOT / file).exists()
    if file.endswith(".md"):
        assert [line for line in RUN_BY[file] if line not in commands(file)] == []
        assert [line for line in RUN_BY[file] if f'("{line}"' not in READERS] == []


def test_each_command_that_is_only_named_is_run_with_the_words_that_it_needs() -> None:
    typed = [line for page in READ for line in commands(page)]
    typed += re.findall(r'\.type\(f?"(cdcbus [^"]+)', READERS)
    named = {name.split(" --")[0] for page in READ for name in names(page)}
    assert len(named) > 20
    assert {
        name for name in named if not any(f"{line} ".startswith(f"{name} ") for line in typed)
    } == set(RUN_NAMED)
    assert all((ROOT / file).exists() for file in RUN_NAMED.values())

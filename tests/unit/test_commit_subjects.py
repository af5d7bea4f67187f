"""The hook that checks the subjects of commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / ".githooks" / "commit-msg"


def check(message: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "message"
    file.write_text(message, encoding="utf-8")
    return subprocess.run([HOOK, file], capture_output=True, text=True)


@pytest.mark.parametrize(
    "subject",
    [
        "fix(producer): keep the GTIDs of a far position",
        "docs: say what TRUNCATE does",
        "feat(api)!: drop v1",
        'Revert "fix: this"',
        "feat: " + "x" * 66,
    ],
)
def test_good_subjects_pass(subject: str, tmp_path: Path) -> None:
    done = check(f"{subject}\n\nThe body may say anything.\n", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ("Keep the GTIDs", "is not `type(scope): imperative`"),
        ("fix(producer) keep the GTIDs", "is not `type(scope): imperative`"),
        ("wip: something", "is not `type(scope): imperative`"),
        ("fix: keep the GTIDs.", "is not `type(scope): imperative`"),
        ("feat: " + "x" * 67, "has 73 characters; 72 are the most"),
    ],
)
def test_other_subjects_are_refused_with_a_sentence(
    subject: str, complaint: str, tmp_path: Path
) -> None:
    done = check(subject, tmp_path)
    assert done.returncode == 1
    assert complaint in done.stderr

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "this is not a terminal: add --yes, with --source and --target"),
        (["--yes"], "--source is missing"),
        (["--json"], "--json cannot ask: add --yes"),
        (["--yes", "--no-run", "--stay"], "--no-run starts nothing"),
        (["--yes", "--source", "mysql://db1/shop"], "--source names no user"),
        (["--yes", "--source", "mysql://u@db1/shop"], "set SOURCE_PASSWORD"),
        (["--yes", "--source", "mysql://u:secret@db1:x/shop"], "cannot be read"),
        (["--yes", "--source", "oracle://u:secret@db1/shop"], "cdcbus task new"),
    ],
)
def test_what_cannot_be_answered_is_a_sentence_and_wrong_usage(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_PASSWORD", raising=False)
    result = CliRunner().invoke(main, ["init", "--folder", str(tmp_path), *words])
    assert result.exit_code == 2
    assert sentence in " ".join(result.output.replace("│", " ").split())
    assert "secret" not in result.output


def test_it_does_not_wait_for_an_input_that_never_ends() -> None:
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "cdcbus", "init"],
            stdin=reading,
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, "add --yes" in done.stderr) == (2, True)


def test_several_copies_in_a_folder_are_told_apart_by_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for ending in ("kafka", "mysql"):
            (tmp_path / f"{name}-to-{ending}.properties").touch()
    result = CliRunner().invoke(main, ["init", "--folder", str(tmp_path), "--yes"])
    assert result.exit_code == 2
    assert "several copies here (a, b): choose with --name" in result.output

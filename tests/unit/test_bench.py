"""What several runs of benchmarks come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bench import __main__ as bench
from tests.bench.__main__ import as_markdown
from tests.bench.figures import FIGURES, Figure, tell, told

DOCS = Path(__file__).parents[2] / "docs"


def test_figures_are_told_to_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures"
    tell("nobody asks", 1.0)
    monkeypatch.setenv(FIGURES, str(file))
    tell("ratio", 2.5)
    tell("start", 1.1, "s", is_less_better=True)
    assert told(file) == [Figure("ratio", 2.5), Figure("start", 1.1, "s", True)]
    assert told(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("values", "is_less_better", "stored", "is_worse"),
    [
        ((1.0, 3.0, 9.0), False, 11.2, False),
        ((1.0, 3.0, 9.0), False, 11.3, True),
        ((1.0, 3.0, 9.0), True, 0.81, False),
        ((1.0, 3.0, 9.0), True, 0.79, True),
    ],
)
def test_even_the_best_of_all_runs_is_worse_by_a_quarter(
    values: tuple[float, ...],
    is_less_better: bool,
    stored: float,
    is_worse: bool,
) -> None:
    found = bench.gathered([[Figure("rate", each, "", is_less_better)] for each in values])
    assert bool(bench.worse(found, {"rate": stored, "another": 1e9})) is is_worse


@pytest.mark.parametrize(("rate", "code"), [(4.0, 0), (1.0, 1)])
def test_a_ratio_that_is_worse_than_the_stored_one_is_an_error(
    rate: float, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "BASELINE", tmp_path / "baseline.json")
    monkeypatch.setattr(bench, "run", lambda *_: [Figure("rate", 4.0), Figure("way", 5.0, "ms")])
    words = ["--only", "formats", "--runs", "3"]
    assert CliRunner().invoke(bench.main, [*words, "--store"]).exit_code == 0
    assert bench.BASELINE.read_text() == '{\n "rate": 4.0\n}\n'
    monkeypatch.setattr(bench, "run", lambda *_: [Figure("rate", rate)])
    kept = tmp_path / "kept.json"
    answer = CliRunner().invoke(bench.main, [*words, "--baseline", "--json", str(kept)])
    assert answer.exit_code == code, answer.output
    assert ("rate: 1 at best, stored is 4" in answer.output) is bool(code)
    assert f'"rate": [\n   {rate},' in kept.read_text()


def test_the_table_of_the_docs_is_that_of_the_figures_beside_it() -> None:
    kept = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert as_markdown(kept) in page
    assert {len(values) for values in kept["figures"].values()} == {5}

"""The figures of a benchmark, for a program that runs several: a line of JSON each."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FIGURES = "CDCBUS_FIGURES"
"""The file for figures; without it none are written."""


@dataclass(frozen=True, slots=True)
class Figure:
    """`unit`: "" for a ratio to what was measured in the same run."""

    name: str
    value: float
    unit: str = ""
    is_less_better: bool = False

    @property
    def is_ratio(self) -> bool:
        return not self.unit


def tell(name: str, value: float, unit: str = "", *, is_less_better: bool = False) -> None:
    """Adds a figure."""
    if path := os.environ.get(FIGURES):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(Figure(name, value, unit, is_less_better))) + "\n")


def told(path: Path) -> list[Figure]:
    """All figures in this file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Figure(**json.loads(line)) for line in lines]

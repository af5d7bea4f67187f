"""Measures of the code, folder by folder: a mirror, not a target to game.

    .venv/bin/python tests/code_measures.py [ROOT]

Printed for each folder: files, arrows (imports between its rooms), lines of code, the length that
nine lines in ten do not exceed, comprehensions and conditional expressions per 1000 lines, and the
share of lines that are comments.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("plugins", "producer", "consumer", "tasks", "ops", "tests")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class Measures:
    """Counts of a folder. `lengths`: of each line that is not blank."""

    files: int
    arrows: int
    lengths: list[int]
    comprehensions: int
    conditionals: int
    comments: int

    def row(self, name: str) -> str:
        """One line of the table."""
        lines = len(self.lengths)
        p90 = sorted(self.lengths)[lines * 9 // 10]
        return (
            f"{name:10}{self.files:7}{self.arrows:8}{lines:8}{p90:6}"
            f"{self.comprehensions * 1000 / lines:8.1f}{self.conditionals * 1000 / lines:8.1f}{self.comments / lines:9.1%}"
        )


def measures(folder: Path) -> Measures:
    """Of all Python files below a folder, but for golden cases."""
    found = Measures(0, 0, [], 0, 0, 0)
    arrows: set[tuple[str, str]] = set()
    for path in sorted(folder.rglob("*.py")):
        if "golden" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        found.files += 1
        found.lengths += [len(line) for line in text.splitlines() if line.strip()]
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        found.comments += sum(token.type == tokenize.COMMENT for token in tokens)
        for node in ast.walk(tree):
            found.comprehensions += isinstance(node, COMPREHENSIONS)
            found.conditionals += isinstance(node, ast.IfExp)
            if isinstance(node, ast.ImportFrom) and node.module:
                arrows.add((_room(path, folder), node.module))
    own = f"cdcbus.{folder.name}."
    rooms = {
        (here, module.removeprefix(own).split(".")[0])
        for here, module in arrows
        if module.startswith(own)
    }
    found.arrows = len({(here, there) for here, there in rooms if here != there})
    return found


def _room(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").parts[0]


def main(root: Path) -> None:
    """Prints the table."""
    print(
        f"{'folder':10}{'files':>7}{'arrows':>8}{'lines':>8}{'p90':>6}{'compr':>8}{'cond':>8}{'comments':>9}"
    )
    for name in FOLDERS:
        print(measures(root / name).row(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1])

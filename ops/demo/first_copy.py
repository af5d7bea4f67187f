"""The commands with which a copy of existing tables begins and ends: `cdcbus schema apply` and
`cdcbus verify`, as a user would type them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from cdcbus.ops.demo.task_files import Target
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.own_program import own_program

# Exit codes of `verify` that say whether all is equal.
RESULT_CODES = (0, 1)


@dataclass(frozen=True, slots=True)
class Verified:
    """What `cdcbus verify` says about each target: its fields by table."""

    targets: Mapping[Target, Sequence[Mapping[str, Any]]]

    @property
    def is_equal(self) -> bool:
        """Whether each table is equal everywhere."""
        return not any(map(_unequal, self.targets.values()))

    def fields(self) -> dict[str, Any]:
        """The verdict for programs."""
        targets = {target.name: list(tables) for target, tables in self.targets.items()}
        return {"equal": self.is_equal, "targets": targets}

    def shown(self) -> list[Table | Text]:
        """The verdict for people: a line for each table, and a sentence for each target."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in ("target", "table"):
            table.add_column(heading)
        for heading in ("source rows", "target rows", "seconds"):
            table.add_column(heading, justify="right")
        table.add_column("result")
        sentences = []
        for target, tables in self.targets.items():
            for each in tables:
                table.add_row(
                    target.label,
                    each["table"],
                    f"{each['sourceRows']:,}",
                    f"{each['targetRows']:,}",
                    f"{each['seconds']:.1f}",
                    each["result"],
                )
            sentences.append(_sentence(target, tables))
        return [table, *sentences]


def _unequal(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    return [each["table"] for each in tables if each["result"] != "equal"]


def _sentence(target: Target, tables: Sequence[Mapping[str, Any]]) -> Text:
    if unequal := _unequal(tables):
        sentence = f"{target.label} is not equal to the source: {', '.join(unequal)}"
        return Text.assemble(("✗ ", "bold red"), sentence)
    rows = sum(each["sourceRows"] for each in tables)
    return Text.assemble(
        ("✓ ", "bold green"),
        f"{target.label} is equal to the source: cdcbus verify has compared {rows:,} rows",
    )


def make_tables(file: Path, zookeeper: str) -> None:
    """Creates the target tables of a consumer task from the source's. Raises CdcError."""
    _output(["schema", "apply", str(file), "--schemas", "--indexes", "--yes"], zookeeper, (0,))


def verified(file: Path, zookeeper: str) -> Sequence[Mapping[str, Any]]:
    """The result for each table of a consumer task. Raises CdcError where there is none."""
    found = orjson.loads(_output(["verify", str(file), "--json"], zookeeper, RESULT_CODES))
    return list(found["tables"])


def _output(words: Sequence[str], zookeeper: str, codes: Sequence[int]) -> str:
    done = subprocess.run(
        own_program("cdcbus", *words),
        env={**os.environ, "CDCBUS_ZOOKEEPER": zookeeper},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode not in codes:
        raise CdcError(
            f"cdcbus {' '.join(words)} has ended with exit code {done.returncode}: "
            f"{done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout

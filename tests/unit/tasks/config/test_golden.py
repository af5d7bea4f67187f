"""Each tests/golden/tasks/<name>.properties gives exactly <name>.expected.json.

A new case needs no code: write the file, run with CDCBUS_WRITE_GOLDEN=1, and read what was written.
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import inspect_task

CASES = sorted((Path(__file__).parents[3] / "golden" / "tasks").glob("*.properties"))
ENVIRON = {"SOURCE_PASSWORD": "secret of the source", "KAFKA_PASSWORD": "secret of Kafka"}


OF_A_RUN = ("until", "ends", "needs_offsets")  # what a file does not say


def plain(value: Any) -> Any:
    """A task as JSON; each object says its type."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name not in OF_A_RUN
        }
        return {"is": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    inspection = inspect_task(path, ENVIRON, Severity.ERROR)
    found = {
        "task": plain(inspection.task),
        "findings": [
            f"{diagnostic.severity}: {diagnostic.located(path.name)}"
            for severity in Severity
            for diagnostic in inspection.diagnostics.of(severity)
        ],
    }
    expected = path.with_suffix(".expected.json")
    if "CDCBUS_WRITE_GOLDEN" in os.environ:
        expected.write_text(
            json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    assert json.loads(json.dumps(found)) == json.loads(expected.read_text(encoding="utf-8"))


def test_there_are_cases() -> None:
    assert len(CASES) >= 10

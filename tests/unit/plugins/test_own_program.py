"""Programs of cdcbus as child processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cdcbus.plugins.own_program import own_program


def test_a_folder_named_cdcbus_is_not_in_the_way(tmp_path: Path) -> None:
    """The parent of a clone is such a current folder."""
    (tmp_path / "cdcbus").mkdir()
    (tmp_path / "cdcbus" / "__init__.py").write_text("raise ImportError('the wrong one')")
    command = own_program("cdcbus", "--version")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""The documentation as a site: all pages in its menu, all links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_menu_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "incidents" / "index.html").read_text(encoding="utf-8")
    files = re.findall(r'href="\.\./(source/tests/[^"]+)"', page)
    assert len(files) > 100
    assert [each for each in files if not (tmp_path / each).exists()] == []
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "A change-data-capture bus" in start
    assert 'href="configuration/"' in start
    for doc in (ROOT / "docs").glob("*.md"):  # none has another page in its place
        name = "" if doc.stem == "index" else doc.stem
        made = (tmp_path / name / "index.html").read_text(encoding="utf-8")
        heading = doc.read_text(encoding="utf-8").partition("\n## ")[2].partition("\n")[0]
        slug = re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
        assert not heading or f'id="{slug}"' in made, (doc.name, slug)

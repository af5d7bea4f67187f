"""The demo as an SVG picture: a scene of its course and the verdict, as they were on the terminal.

The README's, which moves, is made by `make picture`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from cdcbus.ops.demo.screen import WIDTH


def save_picture(
    file: Path, scene: Sequence[RenderableType], verdict: Sequence[RenderableType]
) -> None:
    """Writes a self-contained SVG file: nothing is loaded from elsewhere when it is viewed."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for part in (Text("$ cdcbus demo", "bold"), *scene, Text("…", "dim"), *verdict):
        console.print(part)
    # The fonts that rich names are on another server.
    svg = re.sub(
        r"\s*@font-face \{.*?\}", "", console.export_svg(title="cdcbus demo"), flags=re.DOTALL
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    # Some viewers drop the blanks in front of a text otherwise, and numbers lose their places.
    file.write_text(svg.replace("<svg ", '<svg xml:space="preserve" ', 1), encoding="utf-8")

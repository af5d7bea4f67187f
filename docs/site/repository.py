"""Makes pages of the site of what stands outside of docs/: README, ARCHITECTURE and the like, and
whatever files of the repository a page leads to.

A hook of MkDocs. Links stay as they are read in the repository; here they are turned to where the
site has what they lead to.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
    "examples/README.md": "examples.md",
    "examples": "examples.md",
}
"""Where the site has pages of the repository."""
LINK = re.compile(r"(?<=\]\()(?!https?://|#)([^)\s#]+)")
BLOCK = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def site_path(path: str) -> str:
    """Where the site has a file or a folder of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.md" if (ROOT / path).is_dir() else f"source/{path}"


def linked(text: str, page: str) -> Iterator[str]:
    """The paths in the repository to which a page of it leads, by the page's own path."""
    for link in LINK.findall(BLOCK.sub("", text)):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def turned(text: str, page: str) -> str:
    """The page with links to where the site has what they lead to."""
    place = posixpath.dirname(site_path(page))

    def turn(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link[1]))
        return posixpath.relpath(site_path(target), place or ".")

    return LINK.sub(turn, text)


def listed(folder: str) -> str:
    """A page that leads to the files of a folder."""
    files = sorted(each for each in (ROOT / folder).rglob("*") if each.is_file())
    name = posixpath.basename(folder)
    places = ((each.relative_to(ROOT), each.relative_to(ROOT / folder)) for each in files)
    links = (f"- [{path}]({name}/{below})" for path, below in places)
    return "\n".join((f"# {folder}", "", *links, ""))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages and files of the repository."""
    texts = {f"docs/{each.src_uri}": each.content_string for each in files.documentation_pages()}
    for path in (path for path in PAGES if path.endswith(".md")):
        texts[path] = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, PAGES[path], content=turned(texts[path], path)))
    for target in sorted({each for page, text in texts.items() for each in linked(text, page)}):
        _add(files, config, target)
    return files


def _add(files: Files, config: MkDocsConfig, target: str) -> None:
    uri, path = site_path(target), ROOT / target
    if not uri.startswith("source/") or files.get_file_from_path(uri) is not None:
        return
    if path.is_dir():
        files.append(File.generated(config, uri, content=listed(target)))
        for each in filter(Path.is_file, path.rglob("*")):
            _add(files, config, str(each.relative_to(ROOT)))
    elif path.exists():
        files.append(File.generated(config, uri, abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the links of pages of docs/."""
    if page.file.generated_by is not None:
        return markdown
    return turned(markdown, f"docs/{page.file.src_uri}")

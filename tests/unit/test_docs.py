"""What the pages say is there: make targets, commands with their options, links, files, Docker
services, a task file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from ruamel.yaml import YAML

from cdcbus import __version__
from cdcbus.ops.cli.main import main
from cdcbus.tasks.config.read_task import read_task

ROOT = Path(__file__).parents[2]
PAGES = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md"),
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"\[([^\]]+)\]\(\.\./(tests/[\w/]+\.py)\)")
PATH = re.compile(
    r"[\w.][\w./-]*(/|\.(py|md|cfg|toml|yml|sql|json|svg|properties))|Makefile|Dockerfile"
)
MADE_BY_USERS = {"shop.properties", "NAME.properties", "NAME.expected.json"}


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose(page: str) -> str:
    return BLOCK.sub("", text(page))


def command_lines(page: str) -> list[str]:
    """All that a reader could type: lines of shell blocks without their remarks, and what stands
    in backquotes."""
    lines = [
        line.split("  #")[0].strip()
        for kind, body in BLOCK.findall(text(page))
        if kind == "sh"
        for line in body.splitlines()
    ]
    return [line for line in lines if line] + [
        span.replace("\n", " ") for span in SPAN.findall(prose(page))
    ]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))


def targets_named(page: str) -> list[str]:
    return [
        word
        for line in command_lines(page)
        if line.startswith("make ")
        for word in line.split()[1:]
        if "=" not in word
    ]


def cdcbus_lines(page: str) -> list[list[str]]:
    """The words behind `cdcbus` of each command line, also inside `docker compose exec SERVICE
    cdcbus ...`."""
    found = (re.search(r"(?:^|[\s/])cdcbus ([a-z].*)", line) for line in command_lines(page))
    return [shlex.split(match[1]) for match in found if match]


def check_command(words: list[str]) -> None:
    """Walks down the command tree; every group, command and option must be there. Raises
    AssertionError."""
    command: click.Command = main
    context = click.Context(main)
    rest = list(words)
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        name = rest.pop(0)
        assert name in command.list_commands(context), (
            f"cdcbus {' '.join(words)}: no command {name}"
        )
        _, found, _ = command.resolve_command(context, [name])
        assert found is not None
        command, context = (
            found,
            click.Context(found, info_name=name, parent=context, **found.context_settings),
        )
    if context.ignore_unknown_options:
        return  # the rest is another program's
    options = {option for parameter in command.get_params(context) for option in parameter.opts}
    for word in rest:
        assert not word.startswith("-") or word.partition("=")[0] in options, (
            f"cdcbus {' '.join(words)}: no option {word}"
        )


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_are_there(page: str) -> None:
    assert [target for target in targets_named(page) if target not in make_targets()] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options_are_there(page: str) -> None:
    for words in cdcbus_lines(page):
        check_command(words)


def test_the_readme_and_the_rules_are_really_read() -> None:
    """The checks above would pass on pages in which they find nothing."""
    assert targets_named("README.md")[:2] == ["demo", "test"]
    assert {"lint", "test-unit", "install"} <= set(targets_named("CONTRIBUTING.md"))
    assert {("task", "check"), ("task", "run"), ("offset", "show"), ("stack", "up")} <= {
        tuple(w[:2]) for w in cdcbus_lines("README.md")
    }
    assert len(cdcbus_lines("CHANGELOG.md")) >= 5


@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "run"],
        ["task", "walk"],
        ["task", "check", "--stict", "x"],
        ["demo", "--minutes", "1"],
    ],
)
def test_a_command_that_is_not_there_is_found(words: list[str]) -> None:
    with pytest.raises(AssertionError):
        check_command(words)


def anchors(page: Path) -> set[str]:
    """The names that a reader of Markdown gives to headings."""
    headings = re.findall(
        r"^#+ (.+)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize(("page", "count"), [("docs/incidents.md", 100), ("docs/faults.md", 7)])
def test_the_tests_that_a_page_names_are_there(page: str, count: int) -> None:
    named = TEST.findall(text(page))
    assert len(named) > count
    assert [
        (sentence, file)
        for sentence, file in named
        if f"def test_{sentence.replace(' ', '_')}(" not in text(file)
    ] == []


def files_named(page: str) -> Iterator[tuple[str, list[Path]]]:
    """Each file or folder in backquotes -> where it may be: in the repository, or in the folder
    that its table row begins with."""
    for line in prose(page).splitlines():
        spans = [
            span
            for span in SPAN.findall(line)
            if PATH.fullmatch(span) and span not in MADE_BY_USERS
        ]
        first = SPAN.match(line.removeprefix("| "))
        own = (
            [ROOT / first[1]] if line.startswith("| ") and first and first[1].endswith("/") else []
        )
        yield from ((span, [folder / span for folder in [ROOT, *own]]) for span in spans)


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_are_there(page: str) -> None:
    assert [
        name for name, places in files_named(page) if not any(place.exists() for place in places)
    ] == []


def test_files_are_found_on_the_pages() -> None:
    assert {"plugins/", "converters/", "run.py"} <= {
        name for name, _ in files_named("ARCHITECTURE.md")
    }
    assert {"plugins/registry.py", "docker-compose.yml", "Dockerfile"} <= {
        name for name, _ in files_named("CONTRIBUTING.md")
    }


def test_the_readme_names_services_of_the_compose_file() -> None:
    services = YAML(typ="safe").load(text("docker-compose.yml"))["services"]
    named = re.findall(r"docker compose exec (\S+)", text("README.md"))
    assert len(named) == 3
    assert set(named) <= services.keys()


def test_the_task_file_of_the_readme_is_clean(tmp_path: Path) -> None:
    (body,) = (body for kind, body in BLOCK.findall(text("README.md")) if kind == "properties")
    file = tmp_path / "shop.properties"
    file.write_text(body, encoding="utf-8")
    read = read_task(file, {"SOURCE_PASSWORD": "secret"})
    assert (read.warnings, read.notes) == ([], [])
    assert f"offset show {read.task.task_id} " in text("README.md")
    assert f"/datas/task/{read.task.task_id}/position/shop" in text("README.md")


def test_the_changelog_speaks_of_this_version() -> None:
    versions = re.findall(r"^## \[([\d.]+)\]", text("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == __version__


def test_every_command_has_help_and_a_line_in_the_changelog() -> None:
    changelog = text("CHANGELOG.md")
    groups = {"task", "offset", "config", "source", "node"}
    for name in main.list_commands(click.Context(main)):
        _, command, _ = main.resolve_command(click.Context(main), [name])
        assert command is not None
        assert command.help, name
        wanted = (
            [f"{name} {each}" for each in command.list_commands(click.Context(command))]
            if name in groups and isinstance(command, click.Group)
            else [name]
        )
        assert [each for each in wanted if f"`cdcbus {each}`" not in changelog] == []

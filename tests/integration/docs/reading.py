"""The commands of the docs, and a reader who types those of a page into a shell."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import click

from cdcbus.ops.cli.main import main
from tests.support.changes.shop import Shop
from tests.support.waiting import wait_until
from tests.unit.test_docs import BLOCK, PAGES, text

ROOT = Path(__file__).resolve().parents[3]
READ = [*(page for page in PAGES if page != "CHANGELOG.md"), "examples/README.md"]
COMMAND = re.compile(
    r"(cdcbus|curl|docker|kafka-console-consumer\.sh|kubectl|make|openssl|pip install|python -m"
    r"|zkCli\.sh) "
)
PIECES = re.compile(r"(^```\w*\n.*?^```$)", re.MULTILINE | re.DOTALL)
SECONDS = 600.0
Said = Callable[[], str]


def is_name(line: str) -> bool:
    """Whether it only names a command, which needs more words before it does anything."""
    program, *words = line.split()
    if program != "cdcbus":
        return False
    command: click.Command = main
    while words and isinstance(command, click.Group) and words[0][0] not in "<-":
        _, found, words = command.resolve_command(click.Context(command), words)
        assert found is not None, line
        command = found
    if isinstance(command, click.Group):
        return not words or words[0].startswith("<")
    takes = any(isinstance(each, click.Argument) for each in command.params)
    return takes and all(word.startswith("-") for word in words)


def commands(page: str) -> list[str]:
    """What a page has to type, each once: lines of blocks without their remarks, and whole commands
    in backquotes."""
    found: list[str] = []
    for piece in PIECES.split(text(page)):
        if not (block := BLOCK.fullmatch(piece)):
            spans = (" ".join(span.split()) for span in re.findall("`([^`]+)`", piece))
            found += (span for span in spans if COMMAND.match(span) and not is_name(span))
            continue
        kind, body = block.groups()
        lines = (line.split("  #")[0].strip().removeprefix("$ ") for line in body.splitlines())
        found += (
            line
            for line in lines
            if line and (kind in ("sh", "sql") or (not kind and COMMAND.match(line)))
        )
    return list(dict.fromkeys(found))


def names(page: str) -> list[str]:
    """The commands that a page only names."""
    spans = (" ".join(span.split()) for span in re.findall("`([^`]+)`", PIECES.sub("", text(page))))
    return [span for span in spans if re.match("cdcbus [a-z]", span) and is_name(span)]


class Reader:
    """`own`: patterns of what the page has -> what this reader has in their place."""

    def __init__(
        self, page: str, folder: Path, environ: Mapping[str, str], own: Mapping[str, str]
    ) -> None:
        self.environ, self.folder, self._own = dict(environ), folder, dict(own)
        self._lines = commands(page)
        self.left = list(self._lines)
        self._logs = 0

    def own(self, line: str, **words: str) -> str:
        """The line with this reader's names; `words` stand for words of the page in it."""
        for pattern, ours in self._own.items():
            line = re.sub(pattern, ours.replace("\\", r"\\"), line)
        for word, ours in words.items():
            line = re.sub(rf"\b{word}\b", ours.replace("\\", r"\\"), line)
        return line

    def line(self, start: str) -> str:
        """The page's command that is this, else the only one that begins so. It counts as typed."""
        found = [line for line in self._lines if line == start] or [
            line for line in self._lines if line.startswith(start)
        ]
        assert len(found) == 1, f"{start!r} is on the page as {found}"
        self.left = [line for line in self.left if line != found[0]]
        return found[0]

    def write(self, file: str, content: str) -> Path:
        path = self.folder / self.own(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    def run(self, start: str, code: int = 0, typed: str = "", **words: str) -> str:
        """Types a command of the page, waits for its end, and gives what it prints."""
        return self.type(self.own(self.line(start), **words), code, typed)

    def type(self, line: str, code: int = 0, typed: str = "") -> str:
        """Types a command that need not be the page's."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environ,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == code, f"{line}\n{done.stdout}"
        return done.stdout

    def begin(self, start: str, **words: str) -> AbstractContextManager[Said]:
        """Types a command of the page that goes on until Ctrl-C."""
        return self.going(self.own(self.line(start), **words))

    @contextmanager
    def going(self, line: str) -> Iterator[Said]:
        """Types a command that need not be the page's, which must go on until it gets Ctrl-C at the
        end of the context. Gives what it has printed so far."""
        self._logs += 1
        log = self.folder / f"{self._logs}.out"

        def said() -> str:
            return f"{line}\n{log.read_text(encoding='utf-8', errors='replace')}"

        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield said
                assert process.poll() is None, said()
                process.send_signal(signal.SIGINT)
                assert process.wait(SECONDS) in (0, 130), said()
            except BaseException:
                print(said())
                raise
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


def shown(page: str, first: str) -> list[str]:
    """The shape of the output in the page's block that begins so."""
    (body,) = (body for _, body in BLOCK.findall(text(page)) if body.startswith(first))
    return shape("".join(re.findall(r"^[^$].*\n", body, re.MULTILINE)))


def shape(printed: str, name: str = "shop") -> list[str]:
    """Lines with any numbers, with `shop` for the reader's name, and with yes as each answer."""
    printed = printed.replace(name, "shop").replace("chunks", "chunk")
    printed = printed.replace("[y/N]: y\n", "[y/N]: ").replace("[y/N]: ", "[y/N]: y\n")
    return re.sub(r"\d[\d,.]*", "N", printed).splitlines()


def until_said(said: Said, words: str) -> None:
    """Waits until a command that goes on prints something."""
    wait_until(lambda: words in said(), f"{words!r} in what it prints")


def environ_of(shop: Shop, home: Path, http: str) -> dict[str, str]:
    """That of somebody who has the servers, their passwords, and cdcbus in the search path."""
    tools = shop.folder / "tools"
    tools.mkdir(exist_ok=True)
    for tool, name in (
        ("zkCli.sh", "zkcli"),
        ("kafka-console-consumer.sh", "kafka-console-consumer"),
    ):
        file = tools / tool
        file.write_text(f'#!/bin/sh\nexec cdcbus stack {name} --home {home} "$@"\n')
        file.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{tools}:{os.environ['PATH']}",
        "SOURCE_PASSWORD": shop.addresses.source.password,
        "TARGET_PASSWORD": shop.addresses.postgresql.password,
        "CDCBUS_ZOOKEEPER": f"{shop.addresses.zookeeper}/{shop.name}",
        "CDCBUS_HTTP_BIND": http,
        "CDCBUS_NODE_ID": shop.name,
        "CDCBUS_NODE_LOGDIRECTORY": str(shop.folder / "logs"),
        "CDCBUS_STACK_HOME": str(home),
    }

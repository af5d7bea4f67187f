"""Files that are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdcbus.ops.cli.new_file import write_new
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.named_sources import write_source_file
from cdcbus.tasks.whole_file import write_whole

SMALL_DISK = """
import resource, sys
from pathlib import Path
from cdcbus.ops.cli.new_file import write_new
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.named_sources import write_source_file
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
long = "line=1\\n" * 2000
try:
    if sys.argv[1] == "task":
        write_new(Path(sys.argv[2]), long, force=sys.argv[3] == "over")
    else:
        write_source_file(Path(sys.argv[2]), {"a": long}, is_replacing=sys.argv[3] == "over")
except ConfigError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("kind", ["task", "source"])
@pytest.mark.parametrize("old", ["taskId=1\n", None])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, kind: str, old: str | None) -> None:
    file = tmp_path / "a.properties"
    if old is not None:
        file.write_text(old)
    how = "new" if old is None else "over"
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, kind, file, how], capture_output=True, text=True
    )
    assert "cannot be written: File too large" in done.stderr
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == (
        {} if old is None else {"a.properties": old}
    )


def test_what_was_there_is_complete_until_the_new_text_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill at the last moment would leave it."""
    file = tmp_path / "a.properties"
    file.write_text("old")
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(file.read_text()))
    write_new(file, "new", force=True)
    assert seen == ["old", "new"]
    assert [each.name for each in tmp_path.iterdir()] == ["a.properties"]


def test_a_file_that_is_created_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.properties"
    monkeypatch.setattr(os, "fsync", lambda _: file.write_text("theirs"))
    with pytest.raises(ConfigError, match="cannot be written: File exists"):
        write_new(file, "mine", force=False)
    assert file.read_text() == "theirs"
    with pytest.raises(ConfigError, match="exists already; --replace"):
        write_source_file(file, {"a": "1"}, is_replacing=False)
    assert [each.name for each in tmp_path.iterdir()] == ["a.properties"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_a_link(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "kept").mkdir()
    file, link = tmp_path / "kept" / "a.properties", tmp_path / "link"
    if exists:
        file.write_text("old")
    link.symlink_to("kept/a.properties")
    with pytest.raises(FileExistsError):
        write_whole(link, b"new", is_replacing=False)
    write_whole(link, b"new", is_replacing=True)
    assert link.is_symlink()
    assert file.read_text() == "new"


def test_rights_are_those_of_the_old_file_and_narrow_for_secrets(tmp_path: Path) -> None:
    file, left = tmp_path / "a.properties", tmp_path / ".a.properties.new"
    # As of a killed process; its rights are not taken over.
    left.touch(0o644)
    write_new(file, "text", force=False, is_secret=True)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    write_new(file, "text", force=True)
    assert file.stat().st_mode & 0o777 == 0o640
    write_new(file, "text", force=True, is_secret=True)
    assert file.stat().st_mode & 0o777 == 0o600
    write_new(tmp_path / "b", "text", force=True)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    number = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_new(pipe, "text", force=True)
        assert os.read(number, 10) == b"text"
    finally:
        os.close(number)
    assert pipe.is_fifo()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.touch(0o600)
    os.chown(file, 1234, 1235)
    write_new(file, "text", force=True)
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 1235)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_system_without_links_takes_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    write_whole(tmp_path / "a", b"new", is_replacing=False)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"new"]
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", b"other", is_replacing=False)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"new"]

"""When a process that holds something has certainly ended."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from cdcbus.tasks import process_identity
from cdcbus.tasks.process_identity import identity, is_gone
from tests.support.waiting import wait_until


def test_a_process_is_certainly_gone_only_when_this_machine_knows_it_no_more() -> None:
    me = identity()
    assert not is_gone(me)
    words = [
        sys.executable,
        "-c",
        "import json; from cdcbus.tasks.process_identity import identity; "
        "print(json.dumps(identity()))",
    ]
    other = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    wait_until(lambda: is_gone(other), "the process to be gone")
    boot, namespace, pid, started = other["process"].split("/")
    assert not is_gone({**other, "process": f"elsewhere/{namespace}/{pid}/{started}"})
    assert not is_gone({**other, "process": f"{boot}/1/{pid}/{started}"})
    for junk in (None, 7, "", "a/b/c/d", "////", "a/b"):
        assert not is_gone({"process": junk})


@pytest.mark.parametrize(
    ("error", "signal_error", "gone"),
    [
        (PermissionError, None, False),
        (lambda: OSError(errno.EMFILE, "too many open files"), None, False),
        # hidden, as with hidepid=2
        (FileNotFoundError, PermissionError, False),
        (FileNotFoundError, None, False),
        (FileNotFoundError, ProcessLookupError, True),
        # it ended while its file was being read
        (ProcessLookupError, ProcessLookupError, True),
    ],
)
def test_a_process_that_cannot_be_looked_at_is_not_gone(
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[], OSError],
    signal_error: type[OSError] | None,
    gone: bool,
) -> None:
    holder = identity()

    def refuse(_: int) -> str:
        raise error()

    def kill(_: int, __: int) -> None:
        if signal_error:
            raise signal_error

    monkeypatch.setattr(process_identity, "process_token", lambda pid: holder["process"])
    monkeypatch.setattr(process_identity, "_started_at", refuse)
    monkeypatch.setattr(os, "kill", kill)
    assert is_gone(holder) is gone


@pytest.mark.skipif(
    os.geteuid() != 0 or None in map(shutil.which, ("unshare", "setpriv")),
    reason="only root can mount a /proc that hides processes",
)
def test_a_process_that_proc_hides_from_other_users_is_not_gone() -> None:
    look = (
        "import json, sys; from cdcbus.tasks.process_identity import is_gone; "
        "print(is_gone(json.loads(sys.argv[1])))"
    )
    words = [sys.executable, "-c", look, json.dumps(identity())]
    script = 'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'
    hidden = ["unshare", "--mount", "sh", "-c", script, "sh"]
    found = subprocess.run([*hidden, *words], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"

"""What the threads of a node and of the Java machines below it do."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import pyspark

from cdcbus.ops.web.threads import ask_java, java_machines, own_threads

JARS = Path(pyspark.__file__).parent / "jars"


def test_each_thread_is_named_with_its_stack() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="waits", daemon=True)
    thread.start()
    try:
        told = own_threads()
    finally:
        over.set()
        thread.join()
    assert '"waits" daemon\n' in told
    assert "in wait\n" in told
    assert "test_each_thread_is_named_with_its_stack" in told


def test_a_java_machine_below_this_process_is_found_and_asked() -> None:
    """One that listens on any port and waits, started by a shell as Spark's is."""
    command = f"java -cp '{JARS}/*' py4j.GatewayServer 0 && true"
    with subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        try:
            assert shell.stdout is not None
            shell.stdout.readline()  # it is up
            (pid,) = java_machines(shell.pid)
            assert re.search("Full thread dump|its Java has no jcmd", ask_java(pid, "Thread.print"))
            assert pid in java_machines(os.getpid())
            assert java_machines(pid) == []
        finally:
            for each in java_machines(shell.pid):
                os.kill(each, 9)
    assert ask_java(pid, "Thread.print") == f"process {pid} has ended\n"

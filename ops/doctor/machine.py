"""Checks this machine: Java, Spark's Kafka connector and classes, the compiled decoder, disk, and
how many files a process may open."""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cdcbus.consumer.jvm import maven
from cdcbus.consumer.jvm.cds_archive import archive_file
from cdcbus.consumer.jvm.class_path import class_path
from cdcbus.ops.node.writable_folder import nearest, why_unwritable
from cdcbus.producer.publish import native
from cdcbus.tasks.preflight.result import CheckResult, ok, probe, warning

FREE_BYTES = 2 << 30
OPEN_FILES = 4096
DOWNLOAD_SECONDS = 300.0


def check_machine(logs: Path) -> list[CheckResult]:
    """`logs`: where a node of this machine keeps the logs of its tasks."""
    seen = probe("Java", _java)
    seen += probe("Spark's Kafka connector", _connector, DOWNLOAD_SECONDS)
    seen += probe("Spark's classes", _classes)
    seen += probe("compiled decoder", lambda: compiled(native.without()))
    seen += probe(
        "temporary folder",
        lambda: _free(
            "temporary folder", Path(tempfile.gettempdir()), "Spark keeps its shuffles there"
        ),
    )
    seen += probe(
        "log folder",
        lambda: _free("log folder", logs, "the tasks of a node write their logs there"),
    )
    return seen + probe("open files", _open_files)


def _java() -> Iterator[CheckResult]:
    yield ok("Java", str(maven.java()))


def _connector() -> Iterator[CheckResult]:
    """Fetches it where it is missing, as the first consumer task would."""
    found = maven.kafka_connector_jars()
    yield ok("Spark's Kafka connector", f"{len(found)} jars in {found[0].parent}")


def _classes() -> Iterator[CheckResult]:
    archive = archive_file(class_path())
    found = "not archived: with `cdcbus prepare` tasks start some seconds faster"
    if archive.is_file():
        found = f"archived in {archive.parent}"
    yield ok("Spark's classes", found)


def compiled(why_not: str) -> Iterator[CheckResult]:
    """`why_not`: why it is not in use; empty where it is."""
    found = "in use"
    if why_not:
        found = f"not in use, as {why_not}: tasks do the same in Python, and need more CPU"
    yield ok("compiled decoder", found)


def _free(subject: str, folder: Path, use: str) -> Iterator[CheckResult]:
    if why := why_unwritable(folder):
        yield warning(
            subject, why, f"Allow it to the user of nodes and tasks, or name another folder: {use}."
        )
        return
    free = shutil.disk_usage(nearest(folder)).free
    found = f"{free >> 20:,} MB free in {folder}"
    if free < FREE_BYTES:
        yield warning(subject, found, f"Make room, {FREE_BYTES >> 20:,} MB at least: {use}.")
    else:
        yield ok(subject, found)


def _open_files() -> Iterator[CheckResult]:
    # The soft limit is the one that counts for a process.
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < OPEN_FILES:
        yield warning(
            "open files",
            f"{limit} at most for a process",
            f"Raise it to {OPEN_FILES} or more: ulimit -n, or LimitNOFILE of the service.",
        )
    elif limit == resource.RLIM_INFINITY:
        yield ok("open files", "no limit")
    else:
        yield ok("open files", f"{limit:,} at most for a process")

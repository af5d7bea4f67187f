"""Commands of the docs that no reader of a page types here: those that another test runs, or another
page's reader, and those that cannot be run where tests are."""

from __future__ import annotations

# file -> the commands that it runs; a page stands for the reader of the page
RUN_BY = {
    "README.md": ("cdcbus node run",),
    "docs/alarms.md": ("cdcbus alarm list", "cdcbus alarm test", "cdcbus task status ID"),
    "docs/clusters.md": ("cdcbus stack up --spark 2", "cdcbus stack status"),
    "docs/configuration.md": ("cdcbus config show",),
    "docs/first-copy.md": ("cdcbus init",),
    "docs/http.md": ("cdcbus audit",),
    "docs/operating.md": ("cdcbus prepare", "cdcbus task list"),
    "tests/integration/tasks/snapshots/test_held_back_kills.py": (
        "cdcbus snapshot start ID --table SCHEMA.TABLE --yes",
    ),
    "tests/integration/ops/demo/test_demo.py": ("make demo", "cdcbus demo --snapshot"),
    "tests/integration/ops/test_dockerfile.py": (
        "pip wheel --no-deps --wheel-dir wheels .",
        "pip install wheels/*.whl",
    ),
    "tests/integration/ops/test_package.py": (
        "pip install cdcbus",
        "pip install ./examples/alarm_channel",
        "pip install ./examples/format",
        "pip install ./examples/loader",
        "pip install ./examples/source",
        "cdcbus plugin list",
    ),
}
# what pages only name, and what they do not show with more words -> the test that runs it with these
RUN_NAMED = {
    "cdcbus snapshot stop": "tests/integration/tasks/direct/test_direct.py",
    "cdcbus task new": "tests/unit/ops/cli/task/test_new.py",
    "cdcbus task rm": "tests/integration/ops/node/test_nodes.py",
}
# how they begin -> why they cannot be run
CANNOT = {
    "docker ": "there is no Docker: test_dockerfile.py takes the steps of the Dockerfile without it",
    "kubectl ": "there is no kubectl; tests/kubernetes makes pods by the API of a real Kubernetes, and "
    "tests/unit/ops/kubernetes holds the manifests to its schemas",
    "make ": "most targets run tests or measures, for minutes or hours; test_elsewhere.py asks make "
    "what it would do",
    "python -m tests.": "they measure for minutes on a machine that does nothing else; that they have "
    "these options is asked of each",
    "pip install --no-deps pyspark==": "it takes another Spark, 400 MB, from a registry: `make "
    "test-spark` installs it and runs the consumer's tests with it",
    ". .venv/bin/activate": "the tests run in that environment",
    "export ": "the reader's environment holds these",
}


def why_not_here(line: str) -> str:
    """The file that runs a command, or the reason why none does; empty where there is neither."""
    for file, lines in RUN_BY.items():
        if line in lines:
            return file
    return next((reason for start, reason in CANNOT.items() if line.startswith(start)), "")

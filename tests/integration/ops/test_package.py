"""What `pip install cdcbus` brings: the source archive, the wheel that is made of it alone, and what
works of it without the checkout.

Without network, except that a first demo fetches its servers: what it needs is linked into the
environment. Takes some 20 s of a core, most of it for the two builds, and the demo as much again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from cdcbus import __version__
from cdcbus.ops.stack import stack
from cdcbus.producer.publish import native
from cdcbus.tasks.zookeeper.connection import connect
from tests.integration.docs.reading import commands
from tests.integration.ops.test_dockerfile import packaged
from tests.support.processes.clean_environment import make_environment, needed
from tests.unit.ops.docker.test_docker import ROOT

pytestmark = pytest.mark.integration
SDIST = "from setuptools.build_meta import build_sdist; build_sdist('dist')"


def run(folder: Path, *command: object, code: int = 0) -> str:
    """What a command prints, in a folder and with nothing of the tests' environment."""
    own = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=own, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """That of an environment with the wheel. Removed at the end."""
    folder = tmp_path_factory.mktemp("package")
    listed = run(ROOT, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    run(folder / "source", sys.executable, "-c", SDIST)
    [sdist] = (folder / "source" / "dist").iterdir()
    assert sdist.name == f"cdcbus-{__version__}.tar.gz"
    sdist.rename(folder / sdist.name)
    shutil.rmtree(folder / "source")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    run(folder, *pip, sdist.name)
    [wheel] = folder.glob("*.whl")
    try:
        python = make_environment(folder / "environment")
        run(folder, python, "-m", "pip", "install", "--no-index", wheel)
        yield python
    finally:
        shutil.rmtree(folder)


def test_every_file_of_the_package_is_there(python: Path, tmp_path: Path) -> None:
    shown = run(tmp_path, python, "-c", "import cdcbus; print(cdcbus.__file__)")
    installed = Path(shown.strip()).parent
    assert installed.is_relative_to(python.parents[1])
    assert packaged() == {
        str(path.relative_to(installed))
        for path in installed.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_it_has_all_that_it_declares_to_need(python: Path, tmp_path: Path) -> None:
    run(tmp_path, python, "-m", "pip", "check")


def test_the_command_knows_its_version_and_its_parts(python: Path, tmp_path: Path) -> None:
    """Each group of commands imports what it needs, data files of the package among it."""
    command = python.with_name("cdcbus")
    assert run(tmp_path, command, "--version") == f"cdcbus {__version__}\n"
    assert "Usage: cdcbus demo" in run(tmp_path, command, "demo", "--help")
    run(tmp_path, python, "-c", "import cdcbus.ops.web.serve, cdcbus.ops.demo.run")


def test_the_demo_runs_to_its_end(python: Path, tmp_path: Path) -> None:
    """In a folder that has nothing of the checkout, nor has the path: its processes, and Spark's,
    find the installed package alone."""
    home = Path(tempfile.mkdtemp(prefix="cdcbus-package-test-"))
    home.chmod(0o755)  # the databases' user enters it
    words = ("demo", "--home", home, "--seconds", "5", "--json")
    try:
        verdict = json.loads(run(tmp_path, python.with_name("cdcbus"), *words))
    finally:
        stack.down(home, purge=True, console=Console(quiet=True))
        shutil.rmtree(home, ignore_errors=True)
    assert verdict["equal"] is True
    assert list(verdict["targets"]) == ["postgresql", "mysql"]
    path = json.loads(run(tmp_path, python, "-c", "import json, sys; print(json.dumps(sys.path))"))
    assert [each for each in path if Path(each).is_relative_to(ROOT)] == []


def test_the_examples_install_as_their_page_says(python: Path, tmp_path: Path) -> None:
    """Each `pip install`, and `cdcbus plugin list` after it. Their wheels are made beside, as pip
    would make them in an environment of its own, from the network."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    page = commands("examples/README.md")
    folders = [line.split()[-1] for line in page if line.startswith("pip install ./")]
    assert "pip install ./examples/alarm_channel" in commands("docs/plugins.md") and folders
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    run(tmp_path, *pip, "--wheel-dir", "wheels", *folders)
    wheels = [*(tmp_path / "wheels").iterdir()]
    run(tmp_path, python, "-m", "pip", "install", "--no-index", *wheels)
    try:
        listed = run(tmp_path, python.with_name("cdcbus"), "plugin", "list")
        assert {"exampleLog", "exampleFiles", "exampleLines", "exampleSqlite"} <= set(
            listed.split()
        )
    finally:
        names = [wheel.name.split("-")[0] for wheel in wheels]
        run(tmp_path, python, "-m", "pip", "uninstall", "--yes", *names)


@pytest.mark.skipif(native.compiled is None, reason="there is no C compiler")
def test_the_compiled_parts_are_used(python: Path, tmp_path: Path) -> None:
    program = (
        "from cdcbus.producer.publish.native import make_plan; "
        "from cdcbus.producer.snapshot.rows import compiled; assert make_plan and compiled"
    )
    run(tmp_path, python, "-c", program)


def test_the_doctor_looks_at_the_machine(
    python: Path, tmp_path: Path, zookeeper: str, name: str
) -> None:
    """It finds nothing that would stop a task. The tree is the test's own: other tests leave tasks,
    whose passwords this process does not have."""
    command = python.with_name("cdcbus")
    address = f"{zookeeper}/{name}"
    client = connect(address)
    client.stop()
    client.close()
    found = json.loads(run(tmp_path, command, "doctor", "--json", "--zookeeper", address))
    assert {"compiled decoder", "Spark's Kafka connector"} <= {each["subject"] for each in found}


def test_the_bill_of_materials_names_what_is_brought_along(python: Path, tmp_path: Path) -> None:
    """Of the environment, by the command of `make sbom`, which holds it to the schema of CycloneDX
    itself."""
    tool = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    bill = json.loads(run(tmp_path, *tool, "--validate", "--output-file", "-", python))
    named = {each["name"].lower().replace("_", "-") for each in bill["components"]}
    wanted = {each.name.lower().replace("_", "-") for each in needed("cdcbus")}
    assert named - {"pip", "setuptools"} == {"cdcbus", *wanted}
    assert "pytest" not in named
    [own] = [each for each in bill["components"] if each["name"] == "cdcbus"]
    assert own["version"] == __version__

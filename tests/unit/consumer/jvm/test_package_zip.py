import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from cdcbus.consumer.jvm.package_zip import package_zip


@pytest.mark.parametrize(
    "module", ["cdcbus.consumer.batch.executor_batch", "cdcbus.tasks.direct.chunks.chunk_loader"]
)
def test_an_executor_needs_the_zip_and_other_packages_only(tmp_path: Path, module: str) -> None:
    """Without `site`, as that is what knows where this package is installed."""
    file = package_zip(tmp_path)
    path = [str(file), sysconfig.get_path("purelib")]
    code = f"import sys; sys.path[:0] = {path}; import {module} as it; print(it.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.strip() == f"{file}/{module.replace('.', '/')}.py"


def test_a_format_that_reads_its_schema_finds_it_there(tmp_path: Path) -> None:
    path = [str(package_zip(tmp_path)), sysconfig.get_path("purelib")]
    code = (
        f"import sys; sys.path[:0] = {path}; from cdcbus.plugins.registry import make_converter; "
        "print(make_converter('canalProtobuf').from_bytes(bytes([24, 7])))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "[]\n"


def test_an_event_processor_imports_the_public_api_there(tmp_path: Path) -> None:
    path = [str(package_zip(tmp_path)), sysconfig.get_path("purelib")]
    code = (
        f"import sys; sys.path[:0] = {path}; from cdcbus import Op, RowChange; "
        "print(RowChange.__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "cdcbus.plugins.rowchange\n"

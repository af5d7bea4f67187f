"""What setup.py makes beside setup.cfg."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cdcbus.plugins.converters.protobuf import canal_schema

ROOT = Path(__file__).resolve().parents[2]
PROTO = "plugins/converters/protobuf/canal.proto"
BUILD = """
import sys
from setuptools.command.build import build
from distutils.core import run_setup

distribution = run_setup("setup.py", stop_after="init")
command = distribution.get_command_obj("build_schema")
command.build_lib = sys.argv[1]
assert "build_schema" in distribution.get_command_obj("build").get_sub_commands()
if sys.argv[2:]:
    sys.modules["grpc_tools"] = None
command.run()
print(*command.get_source_files())
"""


def built(to: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BUILD, str(to), *arguments], cwd=ROOT, capture_output=True, text=True
    )


def test_the_schema_of_canal_s_protobuf_form_is_made_of_its_proto_file(tmp_path: Path) -> None:
    """What is installed here is of the file as it stands, which a source archive has with it."""
    done = built(tmp_path)
    assert done.stdout.split() == [PROTO], done.stderr
    made = tmp_path / "cdcbus" / Path(PROTO).with_suffix(".desc")
    assert made.read_bytes() == canal_schema.FILE.read_bytes(), "make install makes it anew"


def test_a_build_without_its_tool_says_so(tmp_path: Path) -> None:
    done = built(tmp_path, "without")
    assert done.returncode == 1 and "pip install grpcio-tools" in done.stderr

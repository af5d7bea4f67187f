"""What setup.cfg cannot say: the compiled parts, without which all works, only slower, and the
schema of canal's protobuf form, without which that form is not read."""

from pathlib import Path

from setuptools import Command, Extension, setup
from setuptools.command.build import build

SCHEMA = Path("plugins/converters/protobuf/canal.proto")
MADE = SCHEMA.with_suffix(".desc")


class Build(build):
    sub_commands = [*build.sub_commands, ("build_schema", None)]


class BuildSchema(Command):
    """Makes `canal.desc` of `canal.proto`: in the source tree for an editable install, else only
    in what is built."""

    description = "compile the schema of canal's protobuf form"
    user_options = []
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self):
        try:
            from grpc_tools import protoc
        except ImportError as error:
            raise SystemExit(
                "grpcio-tools is needed to build cdcbus, as pyproject.toml says: pip install "
                "grpcio-tools, or build without --no-build-isolation"
            ) from error
        to = MADE if self.editable_mode else Path(self.get_outputs()[0])
        to.parent.mkdir(parents=True, exist_ok=True)
        arguments = [f"--proto_path={SCHEMA.parent}", f"--descriptor_set_out={to}", str(SCHEMA)]
        if protoc.main(["protoc", *arguments]):
            raise SystemExit(f"{SCHEMA} cannot be compiled: see above")

    def get_source_files(self):
        return [str(SCHEMA)]

    def get_outputs(self):
        return [str(Path(self.build_lib, "cdcbus", MADE))]

    def get_output_mapping(self):
        return {self.get_outputs()[0]: str(MADE)} if self.editable_mode else {}


setup(
    cmdclass={"build": Build, "build_schema": BuildSchema},
    ext_modules=[
        Extension(
            "cdcbus.producer.publish._native",
            ["producer/publish/native.c"],
            optional=True,
            py_limited_api=True,
        ),
        Extension(
            "cdcbus.producer.snapshot._images",
            ["producer/snapshot/images.c"],
            optional=True,
            py_limited_api=True,
        ),
        Extension(
            "cdcbus.plugins.converters.arrow._cut",
            ["plugins/converters/arrow/cut.c"],
            optional=True,
            py_limited_api=True,
        ),
    ],
    # one build for all versions of Python from there on
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

"""What setup.cfg cannot say: the compiled part, without which all works, only slower."""

from setuptools import Extension, setup

setup(
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
    ],
    # one build for all versions of Python from there on
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

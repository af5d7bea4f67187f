"""Why an application of Spark has ended, as far as its JVM tells."""

from __future__ import annotations

from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from cdcbus.consumer.spark import session
from cdcbus.plugins.errors import SparkEnded


@pytest.mark.parametrize("code", [143, -9, None])
def test_an_application_that_ends_with_its_jvm_is_not_said_to_be_ended_by_a_cluster(
    code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM that is asked to stop ends the application first, and answers for a moment."""

    def wait(seconds: float) -> int:
        if code is None:
            raise TimeoutExpired("java", seconds)
        return code

    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=SimpleNamespace(wait=wait)))
    context = SimpleNamespace(applicationId="app-1", master="spark://h:7077")
    spark: Any = SimpleNamespace(sparkContext=context)
    error = session._end("cdcbus task 7", spark)
    assert isinstance(error, SparkEnded) is (code is not None)
    said = {143: "(exit code 143)", -9: "(killed by SIGKILL", None: "was ended by spark.master="}
    assert said[code] in str(error)

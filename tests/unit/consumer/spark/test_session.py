"""Why an application of Spark has ended, as far as its JVM tells."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from cdcbus.consumer.spark import session
from cdcbus.plugins.errors import SparkEnded


def spark_of(is_stopped: Callable[[], bool]) -> Any:
    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped))
    context = SimpleNamespace(applicationId="app-1", master="spark://h:7077", _jsc=java)
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def jvm_ends(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Makes the JVM end with a code within the time that is waited; not, with None."""

    def end(code: int | None) -> None:
        def wait(seconds: float) -> int:
            if code is None:
                raise TimeoutExpired("java", seconds)
            return code

        process = SimpleNamespace(wait=wait)
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))

    return end


def silent() -> bool:
    raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize("is_stopped", [lambda: True, silent], ids=["answers", "silent"])
@pytest.mark.parametrize("code", [143, -9, None])
def test_an_application_that_ends_with_its_jvm_is_not_said_to_be_ended_by_a_cluster(
    jvm_ends: Callable[[int | None], None], code: int | None, is_stopped: Callable[[], bool]
) -> None:
    """A JVM that is asked to stop ends the application first, and answers for a moment; the call
    that fails may be the last one that it answers."""
    jvm_ends(code)
    error = session._end("cdcbus task 7", spark_of(is_stopped))
    assert isinstance(error, SparkEnded) is (code is not None)
    if code is None and is_stopped is silent:
        assert error is None
        return
    said = {143: "(exit code 143)", -9: "(killed by SIGKILL", None: "was ended by spark.master="}
    assert said[code] in str(error)


def test_an_application_that_runs_on_has_not_ended(
    jvm_ends: Callable[[int | None], None],
) -> None:
    jvm_ends(None)
    assert session._end("cdcbus task 7", spark_of(lambda: False)) is None

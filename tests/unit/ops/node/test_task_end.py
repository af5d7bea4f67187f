"""What a task's end tells its node."""

import pytest

from cdcbus.ops.node.task_end import CRASHED, FAILED, NEEDS_PERSON, end_of
from cdcbus.plugins.errors import BusError, BusRejected, CdcError, SparkEnded


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BusError("topic t: unknown"), FAILED),
        (BusRejected("topic t: no right"), NEEDS_PERSON),
        (SparkEnded("the JVM of Spark has ended"), CRASHED),
    ],
)
def test_its_code_says_whether_a_start_may_help_and_how_soon(error: CdcError, code: int) -> None:
    assert end_of(error, "7")[0] == code

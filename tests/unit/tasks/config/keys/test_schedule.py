"""When something is done again."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from cdcbus.tasks.config.keys.schedule import read_schedule

TUESDAY = datetime(2024, 4, 30, 23, 59, 30, tzinfo=UTC)


@pytest.fixture(params=["UTC"])
def zone(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def following(text: str, moment: datetime) -> str:
    found = read_schedule(text).after(moment.timestamp())
    assert found is not None
    return f"{datetime.fromtimestamp(found, UTC):%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("30m", "2024-05-01 00:29:30"),
        ("6h", "2024-05-01 05:59:30"),
        ("1d", "2024-05-01 23:59:30"),
        ("* * * * *", "2024-05-01 00:00:00"),
        ("0 3 * * *", "2024-05-01 03:00:00"),
        ("59 23 * * *", "2024-05-01 23:59:00"),
        ("*/20 5-6 * * *", "2024-05-01 05:00:00"),
        ("10/20 0 * * *", "2024-05-01 00:10:00"),
        ("0 0 * * 0", "2024-05-05 00:00:00"),
        ("0 0 * * 7", "2024-05-05 00:00:00"),
        ("0 0 * * Mon-Wed", "2024-05-01 00:00:00"),
        ("0 0 13 * fri", "2024-05-03 00:00:00"),
        ("0 0 */13 * fri", "2024-06-14 00:00:00"),
        ("0 0 29 feb *", "2028-02-29 00:00:00"),
        ("0,30 1,2 1 6,7 *", "2024-06-01 01:00:00"),
        ("@daily", "2024-05-01 00:00:00"),
        ("@Weekly", "2024-05-05 00:00:00"),
    ],
)
@pytest.mark.usefixtures("zone")
def test_the_next_time_is_the_one_that_cron_would_take(text: str, wanted: str) -> None:
    assert following(text, TUESDAY) == wanted


@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.usefixtures("zone")
def test_a_time_that_summer_time_leaves_out_or_repeats_comes_once() -> None:
    spring = datetime(2024, 3, 31, 0, 0, tzinfo=UTC)  # 01:00; 02:00 to 03:00 is left out
    assert following("30 2 * * *", spring) == "2024-03-31 01:30:00"
    assert following("30 2 * * *", datetime(2024, 3, 31, 1, 30, tzinfo=UTC)) == (
        "2024-04-01 00:30:00"
    )
    autumn = datetime(2024, 10, 26, 22, 0, tzinfo=UTC)  # 00:00; 02:00 to 03:00 comes twice
    assert following("30 2 * * *", autumn) == "2024-10-27 00:30:00"
    assert following("30 2 * * *", datetime(2024, 10, 27, 0, 30, tzinfo=UTC)) == (
        "2024-10-28 01:30:00"
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "0m", "5s", "1.5h", "6 h", "* * * *", "* * * * * *", "60 * * * *"),
        *("* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *"),
        *("a * * * *", "0 0 30 feb *", "@never", "1-2-3 * * * *", ", * * * *", "-1 * * * *"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_schedule(text)

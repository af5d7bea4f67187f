from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.dates import EPOCH
from cdcbus.plugins.time_zone import comes_twice, in_utc, in_zone, read_zone, seconds_ahead

BERLIN, SHANGHAI = read_zone("Europe/Berlin"), read_zone("Asia/Shanghai")


@pytest.mark.parametrize(
    ("text", "hours"),
    [("UTC", 0), ("Z", 0), ("+08:00", 8), ("-0330", -3.5), ("GMT+8", 8), ("UTC-11", -11)],
)
def test_an_offset_is_read_as_java_reads_it(text: str, hours: float) -> None:
    assert read_zone(text) == timezone(timedelta(hours=hours))


@pytest.mark.parametrize(
    "text",
    [
        *("", "CST", "asia/shanghai", "Asia", "Asia/", "../UTC", "/etc/localtime", "localtime"),
        *("posix/UTC", "+15:00", "+8:60", "8", "+", "a\0b", "x" * 300),
    ],
)
def test_what_names_no_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|Zone|null|time|month"):
        read_zone(text)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-05-01 03:04:05", "2024-04-30 19:04:05"),
        ("2024-05-01 03:04:05.100", "2024-04-30 19:04:05.100"),
        ("1970-01-01 08:00:01.000000", "1970-01-01 00:00:01.000000"),
        ("0000-00-00 00:00:00.00", "0000-00-00 00:00:00.00"),
    ],
)
def test_a_clocks_time_is_a_time_of_utc_with_the_same_digits(text: str, utc: str) -> None:
    assert in_utc(SHANGHAI, text) == utc
    assert in_zone(SHANGHAI, utc) == text


def test_a_time_that_clocks_skip_is_none_and_of_two_the_first_counts() -> None:
    with pytest.raises(ValueError, match="skip"):
        in_utc(BERLIN, "2024-03-31 02:30:00")
    assert in_utc(BERLIN, "2024-10-27 02:30:00") == "2024-10-27 00:30:00"
    assert in_zone(BERLIN, "2024-10-27 00:30:00") == in_zone(BERLIN, "2024-10-27 01:30:00")


def test_only_the_hour_in_which_clocks_are_put_back_comes_twice() -> None:
    shown = [f"2024-10-27 {hour:02}:{rest}" for hour in range(5) for rest in ("00:00", "59:59.9")]
    assert [text for text in shown if comes_twice(BERLIN, text)] == shown[4:6]
    assert not any(comes_twice(read_zone("+02:00"), text) for text in shown)
    assert not comes_twice(BERLIN, "0000-00-00 00:00:00")


@pytest.mark.parametrize("text", ["", "soon", "2024-05-01", "2024-13-01 00:00:00", "1714532645"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|Zone|null|time|month"):
        in_utc(SHANGHAI, text)


@given(
    st.sampled_from(["Europe/Berlin", "Asia/Shanghai", "America/St_Johns", "-09:30"]).map(
        read_zone
    ),
    st.datetimes(datetime(1970, 1, 2), datetime(2038, 1, 18)),
)
def test_a_moment_goes_there_and_back_but_for_the_second_of_two(
    zone: timezone, moment: datetime
) -> None:
    text = moment.replace(microsecond=0).isoformat(" ")
    shown = in_zone(zone, text)
    back = in_utc(zone, shown)
    assert back <= text and in_zone(zone, back) == shown
    assert moment.replace(tzinfo=UTC).astimezone(zone).fold or back == text
    clock = (datetime.fromisoformat(shown) - EPOCH) // timedelta(seconds=1)
    assert shown == in_zone(
        zone, (EPOCH + timedelta(seconds=clock - seconds_ahead(zone, clock))).isoformat(" ")
    )

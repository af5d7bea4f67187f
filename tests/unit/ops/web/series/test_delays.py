"""Charts of delays, and marks."""

from __future__ import annotations

from cdcbus.ops.web.pages.charts import line_chart
from cdcbus.ops.web.series.delays import delay_charts
from cdcbus.ops.web.series.marks import marks_of
from cdcbus.ops.web.series.series import Mark, Series
from cdcbus.tasks.runtime.delay_history import STEP_SECONDS, DelayStep
from cdcbus.tasks.runtime.occurrences import DDL, RETRYING, Occurrence
from cdcbus.tasks.zookeeper.position.history import Change
from cdcbus.tasks.zookeeper.stat import Percentiles
from cdcbus.tasks.zookeeper.tasks import Failure

HOUR = 1_795_280_400  # a whole one, 17:00
READ, KAFKA = "source_to_read", "read_to_kafka"


def test_each_stage_has_its_chart_in_the_order_of_a_rows_way_with_gaps_where_nothing_came() -> None:
    steps = [
        DelayStep(HOUR, {KAFKA: Percentiles(1.0, 2.0, 3.0), READ: Percentiles(0.01, 0.02, 0.03)}),
        DelayStep(HOUR + 2 * STEP_SECONDS, {"other_stage": Percentiles(1.0, 2.0, 3.0)}),
        DelayStep(HOUR - 3600, {READ: Percentiles(9.0, 9.0, 9.0)}),
    ]
    rows = Series("Rows", "a minute", HOUR + 60, 60, [None] * 14)
    marks = [Mark(HOUR + 90, DDL, "x"), Mark(HOUR - 90, DDL, "y")]
    read, kafka, other = delay_charts(steps, (), rows, marks)
    assert (read.title, read.unit, read.start) == (
        "Committed at the source → read",
        "milliseconds",
        HOUR,
    )
    assert [list(line.values) for line in read.lines] == [
        [10.0, None, None],
        [20.0, None, None],
        [30.0, None, None],
    ]
    assert (kafka.unit, kafka.values[0], list(kafka.marks)) == ("seconds", 1.0, marks[:1])
    assert (other.title, list(other.values)) == ("other stage", [None, None, 1.0])


def test_over_days_it_goes_by_the_hour_and_the_current_one_is_as_far_as_it_is() -> None:
    steps = [
        DelayStep(HOUR, {READ: Percentiles(1.0, 2.0, 9.0)}),
        DelayStep(HOUR + STEP_SECONDS, {READ: Percentiles(3.0, 4.0, 5.0)}),
    ]
    hours = [DelayStep(HOUR - 3600, {READ: Percentiles(7.0, 8.0, 9.0)})]
    rows = Series("Rows", "an hour", HOUR - 23 * 3600, 3600, [None] * 24)
    [read] = delay_charts(steps, hours, rows)
    assert [list(line.values[-2:]) for line in read.lines] == [[7.0, 3.0], [8.0, 4.0], [9.0, 9.0]]


def test_three_lines_are_told_apart_without_colour_and_in_words() -> None:
    steps = [DelayStep(HOUR, {READ: Percentiles(1.0, 2.0, 3.0)})]
    [read] = delay_charts(steps, (), Series("Rows", "a minute", HOUR, 60, [None] * 5))
    chart = str(line_chart(read))
    assert all(f'class="line{number}"' in chart for number in (2, 3))
    assert all(f'class="key line{number}"' in chart for number in (1, 2, 3))
    assert "Half of the rows: highest 1 seconds, last 1 seconds. 95 %: highest 2" in chart


def test_marks_are_numbered_by_time_and_a_failure_is_marked_each_time_that_it_came() -> None:
    marks = marks_of(
        [
            Failure("2026-11-21 17:10:00", "n1", "Kafka\n is away", 2),
            Failure("2026-11-21 16:00:00", "n1", "of an earlier version"),
            Failure("damaged", "n1", "x"),
        ],
        [("shop", Change("2026-11-21 17:05:00", "ada", "offset reset", None, "x"))],
        [
            Occurrence(HOUR, RETRYING, "Kafka is away"),
            Occurrence(HOUR + 3600, RETRYING, "Kafka is away"),
            Occurrence(HOUR + 7, DDL, "ALTER of s.a"),
        ],
    )
    assert [(mark.number, mark.kind, mark.sentence) for mark in marks] == [
        (1, "error", "of an earlier version"),
        (2, "retrying", "Kafka is away"),
        (3, "ddl", "ALTER of s.a"),
        (4, "set", "ada: offset reset"),
        (5, "retrying", "Kafka is away"),
    ]


def test_many_marks_of_a_kind_are_counted_in_words() -> None:
    marks = [Mark(HOUR + 60 * number, "error", f"<{number}>", number) for number in range(9)]
    chart = str(line_chart(Series("Lag", "seconds", HOUR, 60, [1.0] * 20, marks)))
    assert "Error 9 times, last at 17:08." in chart and "Error at" not in chart
    assert chart.count("data-mark=") == 9 and "error: &lt;8&gt;" in chart

"""Reports of partitions, added up."""

from cdcbus.consumer.records.batch_report import BatchReport, Beat


def test_times_are_the_earliest_and_the_latest_that_are_known_and_beats_the_last_of_each_source() -> (
    None
):
    total = BatchReport()
    beats = Beat(5.0, 1.0), Beat(6.0, 9.0), Beat(4.0, 9.0)
    for first, last, source, beat in zip((0, 30, 20), (0, 40, 25), "121", beats, strict=True):
        part = BatchReport(first_kafka_ms=first, last_kafka_ms=last)
        part.committed(first, last)
        part.beat(source, beat)
        total.add(part)
    assert (
        total.first_commit_ms,
        total.last_commit_ms,
        total.first_kafka_ms,
        total.last_kafka_ms,
    ) == (20, 40, 20, 40)
    assert total.beats == {"1": beats[0], "2": beats[1]}

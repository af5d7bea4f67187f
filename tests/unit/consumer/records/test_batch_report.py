"""Reports of partitions, added up."""

from cdcbus.consumer.records.batch_report import BatchReport


def test_times_are_the_earliest_and_the_latest_that_are_known_and_beats_the_last_of_each_source() -> (
    None
):
    total = BatchReport()
    for first, last, source, beat in ((0, 0, "1", 5.0), (30, 40, "2", 6.0), (20, 25, "1", 4.0)):
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
    assert total.beats == {"1": 5.0, "2": 6.0}

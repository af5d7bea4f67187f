"""What is said and kept of a record that Kafka does not take."""

from cdcbus.plugins.kafka.delivery_errors import refusal
from cdcbus.producer.publish.oversized import LargeRecord, dead_letter

RECORD = LargeRecord("shop", "shop.docs", ("id", "lang"), "mysql-bin.000007", 1234, 40, 2)


def test_the_sentence_names_all_but_values() -> None:
    sentence = refusal("shop", "k:9092", 2_000_000, 1_048_588, str(RECORD))
    for part in (
        "Kafka topic shop at k:9092",
        "2000000 bytes",
        "1048588",
        "table shop.docs",
        "id, lang",
        "mysql-bin.000007:1234",
        "row 42",
    ):
        assert part in sentence
    assert "limit (max.message.bytes)" in refusal("shop", "k:9092", 2_000_000, None, str(RECORD))


def test_a_letter_keeps_key_and_place() -> None:
    letter = dead_letter("17", RECORD, b"7_de_", 2_000_000)
    assert letter["key"].startswith(b"17\nshop/mysql-bin.000007:1234/40/2/")
    assert letter["value"] == b""
    headers = {name.removeprefix("cdcbus."): value for name, value in letter["headers"].items()}
    assert headers.pop("reason") == b"a record of 2000000 bytes is too large for topic shop"
    assert headers == {
        "topic": b"shop",
        "table": b"shop.docs",
        "position": b"mysql-bin.000007:1234",
        "row": b"42",
        "bytes": b"2000000",
        "key": b"7_de_",
    }


def test_letters_of_two_records_have_two_keys() -> None:
    assert (
        dead_letter("17", RECORD, b"7_", 1)["key"]
        != dead_letter("17", RECORD._replace(number=3), b"7_", 1)["key"]
    )


def test_a_letter_does_not_hide_one_of_another_row_at_the_same_place() -> None:
    """As of another server, or after the binlog was reset."""
    key = dead_letter("17", RECORD, b"7_", 1)["key"]
    assert dead_letter("17", RECORD, b"7_", 2)["key"] == key
    assert dead_letter("17", RECORD, b"8_", 1)["key"] != key
    assert dead_letter("17", RECORD._replace(table="shop.items"), b"7_", 1)["key"] != key
    assert dead_letter("17", RECORD, b"", 1)["key"] != dead_letter("17", RECORD, b"", 2)["key"]

"""A task's text without the secrets that are written out in it, and with them again."""

from __future__ import annotations

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.editing.masked import MASK, masked_text, unmasked_text
from cdcbus.tasks.editing.versions import VERSIONS, Version, versions_to_json

DIST = {
    "taskId": "1084",
    "consumer": {
        "consumerName": "CanalFetch",
        "source": {"address": "h:3306", "username": "u", "password": "ge#h=ei\\m"},
    },
    "loader": {"loaderName": "KAFKA_SYNC", "source": {"password": "${env:P}"}},
}


def test_a_secret_that_is_written_out_is_masked_and_comes_back() -> None:
    text = masked_text(DIST)
    assert "ge#h" not in text and f"consumer.source.password={MASK}" in text
    assert "${env\\:P}" in text
    assert "password=ge\\#h\\=ei\\\\m\n" in unmasked_text(text, DIST)
    assert masked_text({"taskId": "1"}) == unmasked_text("taskId=1\n", DIST)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_what_ends_no_line_of_a_task_file_moves_no_mask(end: str) -> None:
    dist = {**DIST, "receiver": [{"realName": f"Ada{end}Lovelace"}], "a": f"b{end}c"}
    text = masked_text(dist)
    assert "ge#h" not in text and "ge\\#h" not in text
    assert f"consumer.source.password={MASK}\n" in text
    assert "password=ge\\#h\\=ei\\\\m\n" in unmasked_text(text, dist)


def test_a_mask_without_a_stored_secret_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loader\.source\.url: there is no stored secret"):
        unmasked_text(f"loader.source.url={MASK}\n", DIST)


def test_the_newest_versions_are_kept_as_many_as_fit() -> None:
    def kept(length: int) -> int:
        versions = [Version("", "", "", "x" * length)] * (VERSIONS + 5)
        return versions_to_json(versions).count(b'"text"')

    assert [kept(10), kept(100_000), kept(900_000)] == [VERSIONS, 2, 1]

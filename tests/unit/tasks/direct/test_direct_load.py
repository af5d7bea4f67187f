from __future__ import annotations

import json

import pytest

from cdcbus.plugins.positions import BinlogPosition, TopicPartition
from cdcbus.tasks.snapshots.direct import DirectLoad


def test_what_is_stored_of_a_load_reads_back_through_json() -> None:
    load = DirectLoad(
        {TopicPartition("shop", 0): 7, TopicPartition("shop", 1): 0},
        {"shop": "id"},
        {"fetch": BinlogPosition("mysql-bin.000003", 4, gtid="a:1-3", server_uuid="u")},
        is_done=True,
        given={"mapper[i]": "0a1b"},
        is_void=True,
        tables=2,
        looked={"fetch": BinlogPosition("mysql-bin.000004", 9, server_uuid="u")},
    )
    assert DirectLoad.from_fields(json.loads(json.dumps(load.to_fields()))) == load


def test_a_load_of_an_earlier_version_is_not_void() -> None:
    load = DirectLoad({TopicPartition("shop", 0): 7})
    fields = load.to_fields()
    del fields["void"], fields["tables"], fields["given"], fields["looked"]
    assert DirectLoad.from_fields(fields) == load


@pytest.mark.parametrize("fields", [{}, {"offsets": 1}, {"offsets": [["shop"]]}])
def test_what_is_no_load_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        DirectLoad.from_fields(fields)

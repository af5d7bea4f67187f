"""maxwellJson: what the golden cases do not say."""

from cdcbus.plugins.converters.maxwell_json import MaxwellJson
from cdcbus.plugins.rowchange import Unclear


def test_what_may_be_base64_is_marked_as_unclear() -> None:
    value = b'{"database":"shop","table":"t","type":"insert","data":{"id":1,"raw":"AP8="}}'
    [change] = MaxwellJson().from_bytes(value)
    assert {column.unclear for column in change.table.columns} == {Unclear.BYTES}

"""The positions at which a stream can be resumed."""

from __future__ import annotations

from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.gtid import MysqlGtids
from cdcbus.producer.binlog.resume_points import Edge, ResumePoints
from cdcbus.producer.server.connection import Server

UUID, HERE = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "00000000-0000-0000-0000-000000000001"
SERVER = Server("9.0.0", HERE, 1, has_checksum=False, has_gtids=True, charsets={})
EDGE = Edge("bin.000001", 700, 0, 0)


def test_a_position_names_no_server_while_it_says_what_is_published_on_another_one() -> None:
    """Else a restart would look for that place in this server's files."""
    published = Published("bin.000009", 500, f"{UUID}:1-9")
    points = ResumePoints(
        BinlogPosition("bin.000008", 4, gtid=f"{UUID}:1-5", published=published), SERVER
    )
    points.take_file_head(MysqlGtids.parse(f"{UUID}:1-7").to_bytes())
    position = points.at(EDGE)
    assert (position.published, position.server_uuid) == (published, "")
    for number in (8, 9):
        points.end(f"{UUID}:{number}", lambda: BinlogCoordinates("bin.000001", 700))
    position = points.at(EDGE)
    assert (position.published, position.server_uuid) == (None, HERE)


def test_no_gtids_are_not_unknown_ones() -> None:
    start = BinlogPosition("bin.000001", 158, server_uuid=HERE)
    unknown = ResumePoints(start, SERVER)
    none = ResumePoints(start, SERVER, is_before_gtids=True)
    assert (unknown.gtids, none.gtids) == (None, "")
    for points in (unknown, none):
        points.end(f"{UUID}:1", lambda: BinlogCoordinates("bin.000001", 700))
    assert (unknown.at(EDGE).gtid, none.at(EDGE).gtid) == ("", f"{UUID}:1")

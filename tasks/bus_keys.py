"""Every key of `cdcbus.properties`, the settings that all tasks and commands share."""

from __future__ import annotations

import difflib

from cdcbus.tasks.key import Key
from cdcbus.tasks.kinds import DIGEST, PATH_NAME, TEXT
from cdcbus.tasks.loader_keys import NODE_ANSWER

BUS_KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("zookeeper", TEXT, "127.0.0.1:2181", "Where positions and shared sources are kept: `host:port[,host:port][/chroot]`."),
        Key(
            "zookeeper.auth",
            DIGEST,
            "",
            "`user:password` for ZooKeeper (digest). Nodes made with it belong to that user; absent: open to all.",
        ),
        Key(
            "sources.directory",
            TEXT,
            "",
            "The folder of named sources; absent: `sources` beside the task file, then in the current folder.",
        ),
        Key("spark.master", TEXT, "", "Where Spark runs the tasks whose file has no `spark.master`; absent: `local[*]`."),
        Key("node.id", PATH_NAME, "", "This node's id.", answer=NODE_ANSWER),
        Key("http.bind", TEXT, "", "Where a node serves its pages.", answer="accepted; this release serves no pages"),
    )
}


def nearest_bus_key(written: str) -> str | None:
    """The known key that looks most like an unknown one."""
    close = difflib.get_close_matches(written.casefold(), BUS_KEYS, n=1, cutoff=0.6)
    return close[0] if close else None

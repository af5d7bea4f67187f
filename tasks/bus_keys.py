"""Every key of `cdcbus.properties`, the settings that all tasks and commands share."""

from __future__ import annotations

import difflib
import re

from cdcbus.tasks.encryption import KEY_FILE
from cdcbus.tasks.key import Key
from cdcbus.tasks.kinds import DIGEST, FLAG, NAMES, NATURAL, PATH_NAME, SECRET, TEXT, Kind, whole_number, word

ALARM_ANSWER = "accepted; this release sends no alarms"


def _http_url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+\S*", text):
        raise ValueError("not an HTTP address")
    return text


# Who knows the address of a webhook may post to it.
WEBHOOK: Kind[str] = Kind(
    "secret", _http_url, "an address with http:// or https://", "https://hooks.example.com/${env:HOOK}", is_secret=True, is_shown=False
)

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
        Key(KEY_FILE, TEXT, "", "The file of the key that encrypts secrets for ZooKeeper; absent: they are refused there."),
        Key("spark.master", TEXT, "", "Where Spark runs the tasks whose file has no `spark.master`; absent: `local[*]`."),
        Key("node.id", PATH_NAME, "", "The id of a node that is started here; absent: the host's name."),
        Key("node.workLimit", NATURAL, "10", "How many swimlanes it runs at most, unless `cdcbus node limit` says otherwise."),
        Key("node.logDirectory", TEXT, "logs", "The folder of the logs of its tasks."),
        Key("http.bind", TEXT, "", "Where a node serves its pages.", answer="accepted; this release serves no pages"),
        Key("alarm.log", FLAG, "true", "Alarms go to the log.", answer=ALARM_ANSWER),
        Key("alarm.smtp.host", TEXT, "", "The mail server; absent: no mail.", answer=ALARM_ANSWER),
        Key("alarm.smtp.port", whole_number(1, 65535, "587"), "587", "Its port.", answer=ALARM_ANSWER),
        Key("alarm.smtp.user", TEXT, "", "The user there; absent: no login.", answer=ALARM_ANSWER),
        Key("alarm.smtp.password", SECRET, "", "The user's password.", answer=ALARM_ANSWER),
        Key("alarm.smtp.from", TEXT, "", "Who sends the mail.", answer=ALARM_ANSWER),
        Key("alarm.smtp.to", NAMES, "", "Who gets the mail, besides a task's `receiver[i].email`.", answer=ALARM_ANSWER),
        Key(
            "alarm.smtp.tls",
            word("starttls", "tls", "none"),
            "starttls",
            "`starttls`: encrypted after a greeting; `tls`: from the start; `none`.",
            answer=ALARM_ANSWER,
        ),
        Key("alarm.webhook.url", WEBHOOK, "", "An address that gets each alarm as JSON.", answer=ALARM_ANSWER),
        Key("alarm.exec.command", TEXT, "", "A command that gets each alarm as JSON on its input.", answer=ALARM_ANSWER),
    )
}


def nearest_bus_key(written: str) -> str | None:
    """The known key that looks most like an unknown one."""
    close = difflib.get_close_matches(written.casefold(), BUS_KEYS, n=1, cutoff=0.6)
    return close[0] if close else None

"""Every key of `cdcbus.properties`, the settings that all tasks and commands share."""

from __future__ import annotations

import difflib
import re
from urllib.parse import urlsplit

from cdcbus.tasks.config.encryption import KEY_FILE
from cdcbus.tasks.config.keys.allow_lists import ENVIRONMENT, FILES, MODULES
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.plugins import CHANNELS
from cdcbus.tasks.config.keys.types import (
    DIGEST,
    FLAG,
    NAMES,
    NATURAL,
    NUMBER,
    PATH_NAME,
    POSITIVE,
    SECRET,
    TEXT,
    WINDOWS,
    ValueType,
    whole_number,
    word,
)


def _http_url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+\S*", text):
        raise ValueError("not an HTTP address")
    return text


def _has_secret(address: str) -> bool:
    """Whether an address says more than where: a user, a query, or a part that nobody made up to
    be read."""
    found = urlsplit(address)
    parts = found.path.split("/")
    return bool(
        found.query or "@" in found.netloc or any(GUESS_PROOF.fullmatch(part) for part in parts)
    )


# Who knows the address of a webhook may post to it, where that holds something secret.
GUESS_PROOF = re.compile(r"(?=.*[0-9A-Z])[\w-]{16,}", re.ASCII)
WEBHOOK: ValueType[str] = ValueType(
    "secret",
    _http_url,
    "an address with http:// or https://",
    "https://hooks.example.com/${env:HOOK}",
    is_secret=True,
    is_shown=False,
    has_secret=_has_secret,
)


def _base_url(text: str) -> str:
    found = urlsplit(_http_url(text))
    if "@" in found.netloc or found.query or found.fragment:
        raise ValueError("more than an address")
    return text


def _matchers(text: str) -> str:
    if not re.fullmatch(rf"{_MATCHER}(?:,{_MATCHER})*", text):
        raise ValueError("not matchers")
    return text.strip()


_MATCHER = r'\s*[a-zA-Z_]\w*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
BASE_URL: ValueType[str] = ValueType(
    "address",
    _base_url,
    "an address with http:// or https://, without user and query",
    "http://prometheus:9090",
    is_shown=False,  # people write passwords into addresses
)
MATCHERS: ValueType[str] = ValueType(
    "matchers", _matchers, 'name="value" pairs between commas', 'env="prod",job="cdcbus"'
)


def _bind(text: str) -> tuple[str, int] | None:
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    if (
        not colon
        or not re.fullmatch(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", host)
        or not re.fullmatch(r"[0-9]{1,5}", port)
        or int(port) > 65535
    ):
        raise ValueError("not host:port")
    return host.strip("[]"), int(port)


def _token(text: str) -> str:
    if not re.fullmatch(r"[!-~]{16,}", text):
        raise ValueError("too short, or not printable")
    return text


# Port 0: any that is free.
BIND: ValueType[tuple[str, int] | None] = ValueType(
    "address", _bind, "host:port, or off", "127.0.0.1:8190"
)
TOKEN: ValueType[str] = ValueType(
    "secret",
    _token,
    "16 or more characters, without blanks",
    "${env:CDCBUS_TOKEN}",
    is_secret=True,
    is_shown=False,
)


def _provider(text: str) -> str:
    """TLS keeps what is asked there from others; on this machine there is nobody else."""
    found = urlsplit(text)
    is_here = found.hostname in ("127.0.0.1", "::1", "localhost")
    if (
        found.scheme not in (("http", "https") if is_here else ("https",))
        or not found.hostname
        or "@" in found.netloc
        or re.search(r"[\s?#]", text)
    ):
        raise ValueError("no address of a provider")
    return text


PROVIDER: ValueType[str] = ValueType(
    "address",
    _provider,
    "an address with https://, without ? and #",
    "https://sso.example.com/realms/main",
)
CONSOLE: ValueType[str] = ValueType(
    "address",
    lambda text: _origin(text),
    "https:// or http://, host and port, nothing behind",
    "https://cdcbus.example.com",
)
WORDS: ValueType[tuple[str, ...]] = ValueType(
    "list",
    lambda text: tuple(text.replace(",", " ").split()),
    "words separated by blanks or commas",
    "openid profile",
)


def _origin(text: str) -> str:
    found = re.fullmatch(r"(https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)/?", text)
    if not found:
        raise ValueError("no address of a console")
    return found[1]


# For all consumer tasks that run by these settings; of those that share a Spark application there
# are no others.
SPARK_KEY = Key(
    "spark.*",
    TEXT,
    "",
    "A setting of Spark, by its own name, for the tasks whose file has no such key.",
)

# What a task's text may say otherwise for itself.
ALARM_LIMIT_KEYS = (
    Key(
        "alarm.lagSeconds", NUMBER, "300", "The lag in seconds that raises an alarm; below 1: none."
    ),
    Key(
        "alarm.stuckSeconds",
        NUMBER,
        "300",
        "Seconds that a batch may take, and a position may stand still while there is more to "
        "read.",
    ),
    Key(
        "alarm.heartbeatSeconds",
        NUMBER,
        "300",
        "Seconds after the last heartbeat of a source that has written some.",
    ),
    Key("alarm.intervalTime", POSITIVE, "1800", "Seconds between two notices of the same alarm."),
    Key(
        "alarm.windows",
        WINDOWS,
        "",
        "When notices are sent, by the clock of the node: `08:00-20:00,22:00-02:00`; absent: "
        "always.",
    ),
    Key(
        "alarm.recoveries", NATURAL, "0", "How often an hour a task that is stuck is started again."
    ),
)
ALARM_KEYS = (
    *ALARM_LIMIT_KEYS,
    Key(
        "alarm.holdSeconds",
        NATURAL,
        "60",
        "Seconds that a condition must last to raise an alarm, and be absent to clear it.",
    ),
    Key(
        "alarm.retentionPercent",
        NUMBER,
        "50",
        "Of the time that topic or binlog are kept, how much a task may be behind.",
    ),
    Key(
        "alarm.digestSeconds",
        NATURAL,
        "30",
        "Seconds for which alarms that are not critical wait for others of the same cause.",
    ),
    Key("alarm.log", FLAG, "true", "Alarms go to the log of the node."),
    Key("alarm.smtp.host", TEXT, "", "The mail server; absent: no mail."),
    Key("alarm.smtp.port", whole_number(1, 65535, "587"), "587", "Its port."),
    Key("alarm.smtp.user", TEXT, "", "The user there; absent: no login."),
    Key("alarm.smtp.password", SECRET, "", "The user's password."),
    Key("alarm.smtp.from", TEXT, "", "Who sends the mail; absent: `cdcbus@` and the host's name."),
    Key("alarm.smtp.to", NAMES, "", "Who gets the mail, besides a task's `receiver[i].email`."),
    Key(
        "alarm.smtp.tls",
        word("starttls", "tls", "none"),
        "starttls",
        "`starttls`: encrypted after a greeting; `tls`: from the start; `none`.",
    ),
    Key(
        "alarm.smtp.severity",
        word("warning", "critical"),
        "warning",
        "How bad an alarm must be to go there.",
    ),
    Key("alarm.webhook.url", WEBHOOK, "", "An address that gets each alarm as JSON."),
    Key(
        "alarm.webhook.severity",
        word("warning", "critical"),
        "warning",
        "How bad an alarm must be to go there.",
    ),
    Key("alarm.exec.command", TEXT, "", "A command that gets each alarm as JSON on its input."),
    Key(
        "alarm.exec.severity",
        word("warning", "critical"),
        "warning",
        "How bad an alarm must be to go there.",
    ),
    Key(
        CHANNELS,
        NAMES,
        "",
        "Channels of other packages, by the names of their [entry "
        "points](plugins.md#alarm-channels); `alarm.channel.NAME.severity` and other "
        "`alarm.channel.NAME.*` are their settings.",
    ),
)

OIDC_KEYS = (
    Key(
        "http.oidc.issuer",
        PROVIDER,
        "",
        "The OpenID Connect provider that people sign in through, as its issuer is named; every "
        "page needs that then, or a token; absent: tokens only.",
    ),
    Key("http.oidc.clientId", TEXT, "", "The id of the console there."),
    Key(
        "http.oidc.clientSecret",
        SECRET,
        "",
        "Its secret; absent: a public client, whose sessions are for one node each.",
    ),
    Key("http.oidc.scopes", WORDS, "openid profile email", "The scopes that are asked for."),
    Key(
        "http.oidc.nameClaim",
        TEXT,
        "preferred_username",
        "The claim that names a person in the audit; where it is missing: `sub`.",
    ),
    Key(
        "http.oidc.groupsClaim",
        TEXT,
        "groups",
        "The claim that has a person's groups or roles, with dots for a claim in a claim: "
        "`realm_access.roles`.",
    ),
    Key(
        "http.oidc.address",
        CONSOLE,
        "",
        "The console's address for browsers, to which the provider sends them back; absent: the "
        "one that they ask.",
    ),
)

PROMETHEUS_KEYS = (
    Key(
        "prometheus.url",
        BASE_URL,
        "",
        "The Prometheus that reads `/metrics` of nodes: charts of tasks come from it; absent: from "
        "ZooKeeper.",
    ),
    Key("prometheus.user", TEXT, "", "The user there; absent: no login."),
    Key("prometheus.password", SECRET, "", "The user's password."),
    Key("prometheus.token", SECRET, "", "A bearer token instead of user and password."),
    Key(
        "prometheus.match",
        MATCHERS,
        "",
        "Matchers that tell this installation's metrics from others there, as of a selector.",
    ),
)

BUS_KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key(
            "zookeeper",
            TEXT,
            "127.0.0.1:2181",
            "Where positions and shared sources are kept: `host:port[,host:port][/chroot]`.",
        ),
        Key(
            ENVIRONMENT,
            PATH_NAME,
            "",
            "What this installation is for, such as `prod`; tasks run here only if they say the "
            "same; absent: only those that say nothing.",
        ),
        Key(
            "zookeeper.auth",
            DIGEST,
            "",
            "`user:password` for ZooKeeper (digest). Nodes made with it belong to that user; "
            "absent: open to all.",
        ),
        Key(
            "zookeeper.sessionSeconds",
            whole_number(3, 600, "6"),
            "6",
            "Seconds after which ZooKeeper gives away locks and tasks of a process that it no "
            "longer hears of; its servers have limits of their own.",
        ),
        Key(
            "zookeeper.leaseSeconds",
            whole_number(2, 599, "4"),
            "",
            "Seconds without an answer of ZooKeeper after which work under a lock ends, 1 or more "
            "below the session; absent: two thirds of that.",
        ),
        Key(
            "sources.directory",
            TEXT,
            "",
            "The folder of named sources; absent: `sources` beside the task file, then in the "
            "current folder.",
        ),
        Key(
            KEY_FILE,
            TEXT,
            "",
            "The file of the key that encrypts secrets for ZooKeeper; absent: they are refused "
            "there.",
        ),
        Key(
            "spark.master",
            TEXT,
            "",
            "Where Spark runs the tasks whose file has no `spark.master`; absent: `local[*]`.",
        ),
        Key(
            "node.id",
            PATH_NAME,
            "",
            "The id of a node that is started here; absent: the host's name.",
        ),
        Key(
            "node.workLimit",
            NATURAL,
            "10",
            "How many swimlanes it runs at most, unless `cdcbus node limit` says otherwise.",
        ),
        Key("node.logDirectory", TEXT, "logs", "The folder of the logs of its tasks."),
        Key(
            FILES,
            NAMES,
            "",
            "The files and folders that `${file:...}` of tasks and sources may read on this "
            "machine; absent: all.",
        ),
        Key(
            MODULES,
            NAMES,
            "",
            "What tasks may have loaded on this machine: modules and entry points of sources, "
            "event processors, converters and loaders, and `spark.*` keys; `none`: nothing; "
            "absent: all.",
        ),
        Key(
            "http.bind",
            BIND,
            "127.0.0.1:8190",
            "Where a node serves its pages and its API; `off`: nowhere. Beyond loopback it needs "
            "`http.token`.",
        ),
        Key(
            "http.token",
            TOKEN,
            "",
            "What changing something over HTTP needs, 16 characters or more; absent: nothing can "
            "be changed there.",
        ),
        Key(
            "http.closed",
            FLAG,
            "false",
            "Every page needs `http.token`, also on this machine. Set it where a proxy is in "
            "front.",
        ),
        *OIDC_KEYS,
        *ALARM_KEYS,
        *PROMETHEUS_KEYS,
    )
}


def nearest_bus_key(written: str) -> str | None:
    """The known key that looks most like an unknown one."""
    close = difflib.get_close_matches(written.casefold(), BUS_KEYS, n=1, cutoff=0.6)
    return close[0] if close else None

"""Every key of `cdcbus.properties`, the settings that all tasks and commands share."""

from __future__ import annotations

import difflib
import re
from typing import Final
from urllib.parse import urlsplit

from cdcbus.tasks.config.encryption import KEY_FILE
from cdcbus.tasks.config.keys.allow_lists import ENVIRONMENT, FILES, MODULES
from cdcbus.tasks.config.keys.definition import Key, by_name
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
    """Whether an address holds more than a location: a user, a query, or a path element that looks
    generated."""
    found = urlsplit(address)
    parts = found.path.split("/")
    return bool(found.query or "@" in found.netloc or any(map(GUESS_PROOF.fullmatch, parts)))


# An address of a webhook that holds such a part is itself a secret: anyone who knows it can post.
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
    # Addresses may hold passwords.
    is_shown=False,
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
    # Sockets take an IPv6 address without its brackets.
    return host.strip("[]"), int(port)


def _token(text: str) -> str:
    # Printable ASCII without blanks, as a header carries it, and too long to be guessed.
    if not re.fullmatch(r"[!-~]{16,}", text):
        raise ValueError("too short, or not printable")
    return text


# Port 0: any free port.
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
    """Plain HTTP is accepted only on this machine, where nobody else can listen."""
    found = urlsplit(text)
    is_here = found.hostname in ("127.0.0.1", "::1", "localhost")
    is_protected = found.scheme == "https" or (found.scheme == "http" and is_here)
    if not is_protected or not found.hostname or "@" in found.netloc or re.search(r"[\s?#]", text):
        raise ValueError("not the address of a provider")
    return text


PROVIDER: ValueType[str] = ValueType(
    "address",
    _provider,
    "an address with https://, without ? and #",
    "https://sso.example.com/realms/main",
)
CONSOLE: ValueType[str] = ValueType(
    "address",
    # A lambda, as the function is defined below.
    lambda text: _origin(text),
    "https:// or http://, host and port, and nothing after them",
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
        raise ValueError("not the address of a console")
    return found[1]


# For all consumer tasks under these settings; tasks that share a Spark application have no other
# Spark settings.
SPARK_KEY = Key(
    "spark.*",
    TEXT,
    "",
    "A setting of Spark, under its own name, for tasks whose file does not set it.",
)

# Limits that a task file can override for its task.
ALARM_LIMIT_KEYS = (
    Key(
        "alarm.lagSeconds",
        NUMBER,
        "300",
        "The lag, in seconds, that raises an alarm; below 1: never.",
    ),
    Key(
        "alarm.stuckSeconds",
        NUMBER,
        "300",
        "Seconds that a batch may take, or a position may stand still while there is more to read, "
        "before an alarm is raised.",
    ),
    Key(
        "alarm.heartbeatSeconds",
        NUMBER,
        "300",
        "Seconds without a new heartbeat that raise an alarm, for a source that has written some.",
    ),
    Key("alarm.intervalTime", POSITIVE, "1800", "Seconds between two notices of the same alarm."),
    Key(
        "alarm.windows",
        WINDOWS,
        "",
        "When notices are sent, by the clock of the node: `08:00-20:00,22:00-02:00`. If unset, "
        "always.",
    ),
    Key("alarm.recoveries", NATURAL, "0", "How many times per hour a stuck task is restarted."),
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
        "How far a task may lag before an alarm is raised, in percent of the time that its topic "
        "or binlog is kept.",
    ),
    Key(
        "alarm.digestSeconds",
        NATURAL,
        "30",
        "Seconds that non-critical alarms wait for others with the same cause.",
    ),
    Key("alarm.log", FLAG, "true", "Whether alarms are written to the node's log."),
    Key("alarm.smtp.host", TEXT, "", "The mail server. If unset, no mail is sent."),
    Key("alarm.smtp.port", whole_number(1, 65535, "587"), "587", "The mail server's port."),
    Key("alarm.smtp.user", TEXT, "", "The user at the mail server. If unset, no login."),
    Key("alarm.smtp.password", SECRET, "", "The user's password."),
    Key(
        "alarm.smtp.from",
        TEXT,
        "",
        "The sender of the mail. If unset, `cdcbus@` and the host name.",
    ),
    Key(
        "alarm.smtp.to",
        NAMES,
        "",
        "The recipients of the mail, in addition to a task's `receiver[i].email`.",
    ),
    Key(
        "alarm.smtp.tls",
        word("starttls", "tls", "none"),
        "starttls",
        "How the connection is encrypted. `starttls`: after a greeting in plain text; `tls`: from "
        "the start; `none`: not at all.",
    ),
    Key(
        "alarm.smtp.severity",
        word("warning", "critical"),
        "warning",
        "The lowest severity that is sent by mail.",
    ),
    Key("alarm.webhook.url", WEBHOOK, "", "An address that receives each alarm as JSON."),
    Key(
        "alarm.webhook.severity",
        word("warning", "critical"),
        "warning",
        "The lowest severity that is sent to the webhook.",
    ),
    Key(
        "alarm.exec.command",
        TEXT,
        "",
        "A command that receives each alarm as JSON on standard input.",
        is_free_text=True,
    ),
    Key(
        "alarm.exec.severity",
        word("warning", "critical"),
        "warning",
        "The lowest severity that is passed to the command.",
    ),
    Key(
        CHANNELS,
        NAMES,
        "",
        "Channels from other packages, by the names of their [entry "
        "points](plugins.md#alarm-channels). `alarm.channel.NAME.severity` and other "
        "`alarm.channel.NAME.*` keys are their settings.",
    ),
)

OIDC_KEYS = (
    Key(
        "http.oidc.issuer",
        PROVIDER,
        "",
        "The OpenID Connect provider that people sign in through, exactly as its issuer is named. "
        "Every page then requires a sign-in or a token. If unset, tokens only.",
    ),
    Key("http.oidc.clientId", TEXT, "", "The console's client id at the provider."),
    Key(
        "http.oidc.clientSecret",
        SECRET,
        "",
        "The console's client secret. If unset, the console is a public client, and each session "
        "is valid on one node only.",
    ),
    Key("http.oidc.scopes", WORDS, "openid profile email", "The scopes to request."),
    Key(
        "http.oidc.nameClaim",
        TEXT,
        "preferred_username",
        "The claim that names a person in the audit. If it is missing, `sub`.",
    ),
    Key(
        "http.oidc.groupsClaim",
        TEXT,
        "groups",
        "The claim with a person's groups or roles; dots reach nested claims: "
        "`realm_access.roles`.",
    ),
    Key(
        "http.oidc.address",
        CONSOLE,
        "",
        "The console's address in browsers, to which the provider redirects people. If unset, the "
        "address that the browser requested.",
    ),
)

PROMETHEUS_KEYS = (
    Key(
        "prometheus.url",
        BASE_URL,
        "",
        "The Prometheus server that reads the nodes' `/metrics`, and from which tasks' charts are "
        "drawn. If unset, they are drawn from ZooKeeper.",
    ),
    Key("prometheus.user", TEXT, "", "The user at Prometheus. If unset, no login."),
    Key("prometheus.password", SECRET, "", "The user's password."),
    Key("prometheus.token", SECRET, "", "A bearer token instead of user and password."),
    Key(
        "prometheus.match",
        MATCHERS,
        "",
        "Matchers, as in a selector, that distinguish this installation's metrics from others in "
        "Prometheus.",
        is_free_text=True,
    ),
)

DEFAULT_ZOOKEEPER: Final = "127.0.0.1:2181"

BUS_KEYS: dict[str, Key] = by_name(
    (
        Key(
            "zookeeper",
            TEXT,
            DEFAULT_ZOOKEEPER,
            "Where positions and shared sources are stored: `host:port[,host:port][/chroot]`.",
        ),
        Key(
            ENVIRONMENT,
            PATH_NAME,
            "",
            "What this installation is for, such as `prod`. Only tasks with the same `environment` "
            "run here; if unset, only tasks without one.",
        ),
        Key(
            "zookeeper.auth",
            DIGEST,
            "",
            "`user:password` for ZooKeeper (digest). Znodes that are created with it belong to "
            "that user. If unset, they are open to all.",
        ),
        Key(
            "zookeeper.sessionSeconds",
            whole_number(3, 600, "6"),
            "6",
            "Seconds without contact after which ZooKeeper releases the locks and tasks of a "
            "process. ZooKeeper's servers limit this value.",
        ),
        Key(
            "zookeeper.leaseSeconds",
            whole_number(2, 599, "4"),
            "",
            "Seconds without an answer from ZooKeeper after which work under a lock ends, at least "
            "1 less than the session. If unset, two thirds of the session.",
        ),
        Key(
            "sources.directory",
            TEXT,
            "",
            "The folder of named sources. If unset, `sources` beside the task file, then in the "
            "current folder.",
        ),
        Key(
            KEY_FILE,
            TEXT,
            "",
            "The file with the key that encrypts secrets for ZooKeeper. If unset, storing a secret "
            "in ZooKeeper is refused.",
        ),
        Key(
            "spark.master",
            TEXT,
            "",
            "Where Spark runs tasks whose file has no `spark.master`. If unset, `local[*]`.",
        ),
        Key(
            "node.id",
            PATH_NAME,
            "",
            "The id of a node that is started here. If unset, the host name.",
        ),
        Key(
            "node.workLimit",
            NATURAL,
            "10",
            "The maximum number of swimlanes that the node runs, unless `cdcbus node limit` says "
            "otherwise.",
        ),
        Key("node.logDirectory", TEXT, "logs", "The folder for the logs of the node's tasks."),
        Key(
            FILES,
            NAMES,
            "",
            "The files and folders that `${file:...}` in tasks and sources can read on this "
            "machine. If unset, all.",
        ),
        Key(
            MODULES,
            NAMES,
            "",
            "What tasks can load on this machine: modules and entry points of sources, event "
            "processors, converters and loaders, `spark.*` keys, and some `kafka.*` keys and "
            "classes. `none`: nothing. If unset, all.",
        ),
        Key(
            "http.bind",
            BIND,
            "127.0.0.1:8190",
            "The address at which a node serves its pages and its API; `off`: none. An address "
            "beyond loopback requires `http.token`.",
        ),
        Key(
            "http.token",
            TOKEN,
            "",
            "The token required to change anything over HTTP, 16 characters or more. If unset, "
            "nothing can be changed over HTTP.",
        ),
        Key(
            "http.closed",
            FLAG,
            "false",
            "Whether every page requires `http.token`, also on this machine. Set it behind a "
            "proxy.",
        ),
        *OIDC_KEYS,
        *ALARM_KEYS,
        *PROMETHEUS_KEYS,
    )
)


def nearest_bus_key(written: str) -> str | None:
    """The known key most similar to an unknown one; None where none is close."""
    close = difflib.get_close_matches(written.casefold(), BUS_KEYS, n=1, cutoff=0.6)
    return next(iter(close), None)

"""Bus-wide settings: which one counts, where it comes from, and that no secret is shown."""

from pathlib import Path

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.encryption import KEY_FILE, KEY_FILE_VARIABLE
from cdcbus.tasks.config.keys.bus import BUS_KEYS, nearest_bus_key
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.control.bus_settings import (
    SUBSTITUTES,
    BusSettings,
    read_bus_settings,
    variable_of,
)
from cdcbus.tasks.zookeeper.lock import LockTimes

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"
HEAD = "| setting | type, default | meaning |"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cdcbus.properties"


def read(
    folder: Path, text: str | None = None, options: dict[str, str] | None = None, **environ: str
) -> BusSettings:
    if text is not None:
        (folder / "cdcbus.properties").write_text(text, encoding="utf-8")
    return read_bus_settings(options or {}, None, environ, folder)


def row(key: Key) -> str:
    default = f", `{key.default}`" if key.default else ""
    return (
        f"| `{key.name}` | {key.value_type.name}{default} | "
        f"{key.meaning}{f' *{key.answer}*' if key.answer else ''} |"
    )


def test_the_page_has_exactly_the_rows_of_the_code() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = lines[lines.index(HEAD) + 2 :]
    assert table[: table.index("")] == [row(key) for key in BUS_KEYS.values()]


# Keys that change nothing while they are unset, and those whose place no single value takes.
EMPTY_IF_UNSET = {
    "environment",
    "zookeeper.auth",
    "sources.directory",
    "secret.keyFile",
    "node.files",
    "node.modules",
    "http.token",
    "http.oidc.issuer",
    "http.oidc.clientId",
    "http.oidc.clientSecret",
    "http.oidc.address",
    "alarm.windows",
    "alarm.smtp.host",
    "alarm.smtp.user",
    "alarm.smtp.password",
    "alarm.smtp.to",
    "alarm.webhook.url",
    "alarm.exec.command",
    "alarm.channels",
    "prometheus.url",
    "prometheus.user",
    "prometheus.password",
    "prometheus.token",
    "prometheus.match",
}


def test_each_key_has_a_default_or_a_substitute_or_is_known_to_have_neither(tmp_path: Path) -> None:
    """Otherwise `config show` shows an empty value where another one is in force."""
    unset = {name for name, key in BUS_KEYS.items() if not key.default}
    assert unset == SUBSTITUTES.keys() | EMPTY_IF_UNSET
    assert not SUBSTITUTES.keys() & EMPTY_IF_UNSET
    settings = read(tmp_path)
    for name in BUS_KEYS:
        value, origin = settings.in_force(name)
        assert bool(value) is (name not in EMPTY_IF_UNSET), name
        assert origin.startswith("default")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alarm.exec.command", "notify --channel '#ops' --text 'bus # 1'"),
        ("prometheus.match", 'cluster="eu # 1"'),
    ],
)
def test_a_value_of_free_text_may_hold_a_number_sign(tmp_path: Path, key: str, value: str) -> None:
    assert read(tmp_path, f"{key}={value}\n").settings[key].written == value


def test_command_line_before_environment_before_file_before_default(
    tmp_path: Path, file: Path
) -> None:
    text = "# remark\nzookeeper=file:1\n"
    for settings, value, origin in (
        (read(tmp_path), "127.0.0.1:2181", "default"),
        (read(tmp_path, text), "file:1", f"{file}:2"),
        (
            read(tmp_path, text, CDCBUS_ZOOKEEPER="env:1"),
            "env:1",
            "environment variable CDCBUS_ZOOKEEPER",
        ),
        (
            read(tmp_path, text, {"zookeeper": "opt:1"}, CDCBUS_ZOOKEEPER="env:1"),
            "opt:1",
            "option --zookeeper",
        ),
        (read(tmp_path, text, CDCBUS_ZOOKEEPER=""), "file:1", f"{file}:2"),
    ):
        assert (settings.zookeeper, settings.settings["zookeeper"].origin) == (value, origin)


def test_the_file_is_the_option_else_the_variable_else_the_one_in_the_folder(
    tmp_path: Path,
) -> None:
    for name in ("option", "variable", "cdcbus.properties"):
        (tmp_path / name).write_text(f"zookeeper={name}:1", encoding="utf-8")
    environ = {"CDCBUS_CONFIG": str(tmp_path / "variable")}
    assert read_bus_settings({}, tmp_path / "option", environ, tmp_path).zookeeper == "option:1"
    assert read_bus_settings({}, None, environ, tmp_path).zookeeper == "variable:1"
    assert read_bus_settings({}, None, {}, tmp_path).zookeeper == "cdcbus.properties:1"


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"nowhere: the settings file cannot be read: No such file"
    ):
        read_bus_settings({}, tmp_path / "nowhere", {}, tmp_path)


def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, "zookeeper=a:1\nnode.id=\\u00\n")
    assert str(raised.value).startswith(f"{file}:2: broken escape")


def test_an_unknown_key_is_warned_of_with_the_nearest(tmp_path: Path, file: Path) -> None:
    (warning,) = read(tmp_path, "zookeper=a:1\n").warnings
    assert warning == f"{file}:1: zookeper: unknown key, without effect; did you mean zookeeper?"
    assert nearest_bus_key("http.bnd") == "http.bind"
    assert nearest_bus_key("xyz") is None


def test_an_inline_secret_works_and_is_warned_of_and_not_shown(tmp_path: Path) -> None:
    settings = read(tmp_path, "zookeeper.auth=cdc:s3cret\n")
    assert settings.zookeeper_auth == "cdc:s3cret"
    assert settings.settings["zookeeper.auth"].shown == "***"
    assert "s3cret" not in repr(settings)
    (warning,) = settings.warnings
    assert "${env:NAME}" in warning
    assert "s3cret" not in warning


def test_secrets_of_options_and_logins_of_addresses_are_not_shown(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "spark.hadoop.fs.s3a.secret.key=s3cret\nspark.executor.memory=2g\n"
        "alarm.email.smtp=h:25\nprometheus.url=http://user:s3cret/9?#@prom:9090\n",
    )
    shown = {name: each.shown for name, each in settings.settings.items()}
    assert "s3cret" not in str(shown)
    assert shown["spark.executor.memory"] == "2g"
    assert shown["prometheus.url"] == "http://***@prom:9090"


def test_a_placeholder_is_filled_when_it_is_asked_for_and_not_before(
    tmp_path: Path, file: Path
) -> None:
    text = "zookeeper.auth=cdc:${env:PASSWORD}\n"
    assert read(tmp_path, text, PASSWORD="p").zookeeper_auth == "cdc:p"
    settings = read(tmp_path, text)
    assert settings.zookeeper == "127.0.0.1:2181"
    with pytest.raises(
        ConfigError,
        match=r"properties:1: zookeeper\.auth: environment variable 'PASSWORD' is not set",
    ):
        assert settings.zookeeper_auth
    assert settings.errors()[0].startswith(f"{file}:1: zookeeper.auth: environment")
    assert settings.settings["zookeeper.auth"].shown == "***${env:PASSWORD}"


def test_a_wrong_secret_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"CDCBUS_ZOOKEEPER_AUTH: zookeeper\.auth: wrong value; expected user:password",
    ) as raised:
        assert read(tmp_path, CDCBUS_ZOOKEEPER_AUTH="s3cret").zookeeper_auth
    assert "s3cret" not in str(raised.value)


def test_the_times_of_locks_are_checked_against_each_other(tmp_path: Path) -> None:
    assert read(tmp_path, "").lock_times == LockTimes(6, 4)
    assert read(tmp_path, "zookeeper.sessionSeconds=30\n").lock_times == LockTimes(30, 20)
    assert read(tmp_path, "zookeeper.sessionSeconds=3\n").lock_times == LockTimes(3, 2)
    both = "zookeeper.sessionSeconds={}\nzookeeper.leaseSeconds={}\n"
    assert read(tmp_path, both.format(10, 9)).errors() == []
    settings = read(tmp_path, both.format(10, 10))
    sentence = (
        "zookeeper.leaseSeconds=10 leaves no time to end work before ZooKeeper gives its locks "
        "away: zookeeper.sessionSeconds=10 must be 1 or more above it; raise the session or lower "
        "the lease"
    )
    assert settings.errors() == [sentence]
    with pytest.raises(ConfigError, match=sentence):
        _ = settings.lock_times
    (refused,) = read(tmp_path, both.format(2, 2)).errors()
    assert "properties:1: zookeeper.sessionSeconds: wrong value; expected a whole" in refused


def test_the_variable_of_each_key() -> None:
    assert variable_of(KEY_FILE) == KEY_FILE_VARIABLE
    assert [variable_of(name) for name in BUS_KEYS] == [
        "CDCBUS_ZOOKEEPER",
        "CDCBUS_ENVIRONMENT",
        "CDCBUS_ZOOKEEPER_AUTH",
        "CDCBUS_ZOOKEEPER_SESSIONSECONDS",
        "CDCBUS_ZOOKEEPER_LEASESECONDS",
        "CDCBUS_SOURCES_DIRECTORY",
        "CDCBUS_SECRET_KEYFILE",
        "CDCBUS_SPARK_MASTER",
        "CDCBUS_NODE_ID",
        "CDCBUS_NODE_WORKLIMIT",
        "CDCBUS_NODE_LOGDIRECTORY",
        "CDCBUS_NODE_FILES",
        "CDCBUS_NODE_MODULES",
        "CDCBUS_HTTP_BIND",
        "CDCBUS_HTTP_TOKEN",
        "CDCBUS_HTTP_CLOSED",
        "CDCBUS_HTTP_OIDC_ISSUER",
        "CDCBUS_HTTP_OIDC_CLIENTID",
        "CDCBUS_HTTP_OIDC_CLIENTSECRET",
        "CDCBUS_HTTP_OIDC_SCOPES",
        "CDCBUS_HTTP_OIDC_NAMECLAIM",
        "CDCBUS_HTTP_OIDC_GROUPSCLAIM",
        "CDCBUS_HTTP_OIDC_ADDRESS",
        "CDCBUS_ALARM_LAGSECONDS",
        "CDCBUS_ALARM_STUCKSECONDS",
        "CDCBUS_ALARM_HEARTBEATSECONDS",
        "CDCBUS_ALARM_INTERVALTIME",
        "CDCBUS_ALARM_WINDOWS",
        "CDCBUS_ALARM_RECOVERIES",
        "CDCBUS_ALARM_HOLDSECONDS",
        "CDCBUS_ALARM_RETENTIONPERCENT",
        "CDCBUS_ALARM_DIGESTSECONDS",
        "CDCBUS_ALARM_LOG",
        "CDCBUS_ALARM_SMTP_HOST",
        "CDCBUS_ALARM_SMTP_PORT",
        "CDCBUS_ALARM_SMTP_USER",
        "CDCBUS_ALARM_SMTP_PASSWORD",
        "CDCBUS_ALARM_SMTP_FROM",
        "CDCBUS_ALARM_SMTP_TO",
        "CDCBUS_ALARM_SMTP_TLS",
        "CDCBUS_ALARM_SMTP_SEVERITY",
        "CDCBUS_ALARM_WEBHOOK_URL",
        "CDCBUS_ALARM_WEBHOOK_SEVERITY",
        "CDCBUS_ALARM_EXEC_COMMAND",
        "CDCBUS_ALARM_EXEC_SEVERITY",
        "CDCBUS_ALARM_CHANNELS",
        "CDCBUS_PROMETHEUS_URL",
        "CDCBUS_PROMETHEUS_USER",
        "CDCBUS_PROMETHEUS_PASSWORD",
        "CDCBUS_PROMETHEUS_TOKEN",
        "CDCBUS_PROMETHEUS_MATCH",
    ]


def test_the_spark_master_is_for_tasks_that_name_none(tmp_path: Path) -> None:
    task = LoadTask(
        "1",
        TopicConfig("k:1", ("t",)),
        "oggJson",
        "JdbcBatch",
        JdbcTarget("jdbc:mysql://h/db"),
        spark_options={"spark.x": "1"},
    )
    assert read(tmp_path).applied_to(task) == task
    settings = read(tmp_path, CDCBUS_SPARK_MASTER="local[2]")
    applied = settings.applied_to(task)
    assert isinstance(applied, LoadTask)
    assert applied.spark_options == {"spark.master": "local[2]", "spark.x": "1"}
    own = LoadTask(
        "1",
        task.source,
        "oggJson",
        "JdbcBatch",
        task.target,
        spark_options={"spark.master": "local[1]"},
    )
    assert settings.applied_to(own) == own


def test_settings_of_spark_are_for_all_consumer_tasks(tmp_path: Path) -> None:
    settings = read(tmp_path, "spark.driver.memory=${env:MEMORY}\nspark.x=bus\n", MEMORY="2g")
    assert (settings.spark_options, settings.warnings) == (
        {"spark.driver.memory": "2g", "spark.x": "bus"},
        (),
    )
    target = JdbcTarget("jdbc:mysql://h/db")
    task = LoadTask(
        "1",
        TopicConfig("k:1", ("t",)),
        "oggJson",
        "JdbcBatch",
        target,
        spark_options={"spark.x": "own"},
    )
    applied = settings.applied_to(task)
    assert isinstance(applied, LoadTask)
    assert applied.spark_options == {"spark.driver.memory": "2g", "spark.x": "own"}


def test_sources_are_looked_for_in_the_directory_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "A.properties").write_text("url=jdbc:mysql://h/db", encoding="utf-8")
    lookup = read(tmp_path, CDCBUS_SOURCES_DIRECTORY=str(tmp_path / "shared")).source_lookup(
        tmp_path / "task.properties"
    )
    found = lookup("A")  # and no ZooKeeper is asked: none runs here
    assert found is not None and found.kind == "JDBC"


def test_a_source_of_porters_node_is_found_behind_files_and_before_zookeeper(
    tmp_path: Path, file: Path
) -> None:
    settings = read(
        tmp_path,
        "porter.source.A.url=jdbc:mysql://h/db\nporter.source.A.password=${env:P}\nporter.source.B.servers=k:1\nporter.source.B.serers=k:1\n",
        CDCBUS_SOURCES_DIRECTORY=str(tmp_path / "shared"),
    )
    found = settings.source_lookup()("A")
    assert found is not None
    assert (found.kind, found.where, found.shown()) == (
        "JDBC",
        str(file),
        {"url": "jdbc:mysql://h/db", "password": "${env:P}"},
    )
    assert found.place(found.entries["password"].line) == f" (source A, {file}:2)"
    assert [*settings.sources] == ["A", "B"]
    (warning,) = settings.warnings
    assert warning.startswith(
        f"{file}:4: porter.source.B.serers: unknown key, without effect; did you mean servers?"
    )
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "A.properties").write_text("servers=k:2", encoding="utf-8")
    found = settings.source_lookup()("A")
    assert found is not None and found.kind == "KAFKA"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("alarm.smtp.port=0", "a whole number from 1 to 65535"),
        ("alarm.smtp.tls=yes", "one of starttls, tls, none"),
        ("alarm.webhook.url=hooks.example.com/s3cret", "an address with http:// or https://"),
        ("alarm.log=maybe", "true or false"),
        ("alarm.windows=8-20", "HH:MM-HH:MM"),
        ("alarm.windows=08:00-08:00", "HH:MM-HH:MM"),
        ("alarm.windows=08:00-24:30", "HH:MM-HH:MM"),
        ("prometheus.url=http://u:s3cret@p:9090", "an address with http:// or https://, without"),
        ("prometheus.url=p:9090", "an address with http:// or https://, without"),
        ('prometheus.match=env="a"} or up{b="c"', 'name="value" pairs between commas'),
        ("prometheus.match=env=prod", 'name="value" pairs between commas'),
    ],
)
def test_a_wrong_setting_is_told(tmp_path: Path, file: Path, line: str, expected: str) -> None:
    (error,) = read(tmp_path, line + "\n").errors()
    assert error.startswith(f"{file}:1: {line.partition('=')[0]}: wrong value; expected {expected}")
    assert "s3cret" not in error


@pytest.mark.parametrize(
    ("address", "is_warned_of"),
    [
        ("http://alarms.intern:8080/cdcbus", False),
        ("https://alarms.intern/hooks/cdcbus-alarms-production", False),
        ("https://hooks.example.com/${env:HOOK}", False),
        ("https://hooks.example.com/services/T0AB12CD3/B0XY98ZW7/a1B2c3D4e5F6g7H8i9J0k1L2", True),
        ("https://user:pw@alarms.intern/hook", True),
        ("https://alarms.intern/hook?token=abc", True),
    ],
)
def test_only_a_webhook_s_address_that_holds_a_secret_is_warned_of(
    address: str, is_warned_of: bool, tmp_path: Path
) -> None:
    settings = read(tmp_path, f"alarm.webhook.url={address}\n")
    assert bool(settings.warnings) is is_warned_of
    assert settings.settings["alarm.webhook.url"].shown in ("***", "***${env:HOOK}")


def test_secrets_of_alarm_channels_are_not_shown(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "alarm.webhook.url=https://h/s3cret\nalarm.smtp.password=s3cret\nalarm.smtp.to=a@h,b@h\n",
    )
    assert settings.errors() == []
    assert {
        name: settings.settings[name].shown
        for name in ("alarm.webhook.url", "alarm.smtp.password", "alarm.smtp.to")
    } == {
        "alarm.webhook.url": "***",
        "alarm.smtp.password": "***",
        "alarm.smtp.to": "a@h,b@h",
    }
    assert "s3cret" not in str(settings.warnings)


def test_the_key_file_of_the_settings_fills_placeholders(tmp_path: Path) -> None:
    filling = read(tmp_path, "secret.keyFile=/k\n", A="1").filling
    assert (filling["A"], filling[KEY_FILE_VARIABLE]) == ("1", "/k")
    own = read(tmp_path, "secret.keyFile=/k\n", CDCBUS_SECRET_KEYFILE="/own").filling
    assert own[KEY_FILE_VARIABLE] == "/own"
    assert KEY_FILE_VARIABLE not in read(tmp_path, "", A="1").filling


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("off", None),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8190", ("::1", 8190)),
        ("node7.example:80", ("node7.example", 80)),
    ],
)
def test_where_a_node_serves_its_pages(
    tmp_path: Path, text: str, bind: tuple[str, int] | None
) -> None:
    assert read(tmp_path, CDCBUS_HTTP_BIND=text).http_bind == bind


def test_pages_are_served_on_loopback_and_there_is_no_token_unless_settings_say_otherwise(
    tmp_path: Path,
) -> None:
    assert (read(tmp_path).http_bind, read(tmp_path).http_token) == (("127.0.0.1", 8190), None)


@pytest.mark.parametrize(
    "text",
    ["8190", ":8190", "0.0.0.0", "0.0.0.0:x", "0.0.0.0:70000", "http://h:80", "a b:80", "::1:80"],
)
def test_what_is_no_place_for_pages_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"http\.bind: wrong value; expected host:port, or off"):
        assert read(tmp_path, CDCBUS_HTTP_BIND=text).http_bind


@pytest.mark.parametrize(
    "text", ["short", "fifteen-letters", "a token with some blanks", "a-token-with-äöü-in-it"]
)
def test_a_token_that_can_be_guessed_or_sent_wrongly_is_refused_without_showing_it(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(ConfigError, match="expected 16 or more characters") as raised:
        assert read(tmp_path, CDCBUS_HTTP_TOKEN=text).http_token
    assert text not in str(raised.value)

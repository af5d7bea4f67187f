"""What tasks may read and load on a machine whose settings limit it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys import allow_lists
from cdcbus.tasks.config.keys.allow_lists import MODULES
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.control.bus_settings import read_bus_settings

KAFKA = "org.apache.kafka.common.security"
LOGIN = 'required username="u" password="p";'
LOAD = """taskId=t
consumer.consumerName=KafkaFetch
consumer.source.servers=k:9092
consumer.source.topics=t
consumer.source.firstConsumeFrom=earliest
loader.loaderName=JdbcBatch
loader.source.url=jdbc:postgresql://db/d
loader.source.userName=u
"""


def errors(line: str, limits: str, tmp_path: Path) -> list[str]:
    """What is wrong with a consumer task that has one more line, by settings with these."""
    file = tmp_path / "cdcbus.properties"
    file.write_text(limits, encoding="utf-8")
    filling = read_bus_settings({}, file).filling
    found = inspect_text(f"{LOAD}{line}\n", filling, Severity.ERROR).diagnostics
    return [f"{each.key}: {each.sentence}" for each in found.of(Severity.ERROR)]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A folder with a password, beside one that is nobody's business, and links."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    for file in (folder / "password", tmp_path / "shadow", tmp_path / "secrets-of-others"):
        file.write_text("pw", encoding="utf-8")
    (folder / "out").symlink_to(tmp_path / "shadow")
    (tmp_path / "in").symlink_to(folder)
    return folder


@pytest.mark.parametrize("path", ["secrets/password", "in/password", "secrets/../secrets/password"])
def test_a_file_below_a_folder_that_is_named_is_read(
    path: str, secrets: Path, tmp_path: Path
) -> None:
    line = f"loader.source.password=${{file:{tmp_path}/{path}}}"
    assert errors(line, f"node.files=/etc/x, {secrets}", tmp_path) == []
    assert errors(line, f"node.files={secrets}/password", tmp_path) == []


@pytest.mark.parametrize(
    "path", ["shadow", "secrets/../shadow", "secrets/out", "secrets-of-others", "nowhere"]
)
def test_no_other_file_is_read_and_the_sentence_names_the_setting(
    path: str, secrets: Path, tmp_path: Path
) -> None:
    line = f"loader.source.password=${{file:{tmp_path}/{path}}}"
    (found,) = errors(line, f"node.files={secrets}", tmp_path)
    assert found.startswith("loader.source.password: ")
    assert "may not be read for a task: the setting node.files" in found
    assert "cannot be read" not in found  # nor whether it exists


@pytest.mark.parametrize(
    "line",
    [
        "kafka.sasl.oauthbearer.assertion.file={}",
        "consumer.source.kafka.sasl.oauthbearer.assertion.jwt.template.file={}",
        "kafka.sasl.oauthbearer.assertion.template.file={}",
        "kafka.sasl.oauthbearer.assertion.file=\\u0001{}",
        "kafka.sasl.oauthbearer.token.endpoint.url=\\u0001file:{}\\u001b",
        "kafka.sasl.oauthbearer.token.endpoint.url=file://{}",
        "kafka.sasl.oauthbearer.token.endpoint.url=URL:File:{}",
        "kafka.SASL.OAUTHBEARER.token.endpoint.url=file:{}",
    ],
)
def test_no_other_file_is_sent_by_a_client_of_kafka(
    line: str, secrets: Path, tmp_path: Path
) -> None:
    limits = f"node.files={secrets}"
    assert errors(line.format(secrets / "password"), limits, tmp_path) == []
    (found,) = errors(line.format(tmp_path / "shadow"), limits, tmp_path)
    assert "may not be read for a task: the setting node.files" in found
    (found,) = errors(line.format(tmp_path / "cdcbus.properties"), "http.bind=off", tmp_path)
    assert "holds secrets of this machine's own settings" in found
    assert errors("kafka.ssl.ca.location=/etc/ssl/ca.pem", limits, tmp_path) == []
    assert errors("kafka.sasl.oauthbearer.token.endpoint.url=https://sso/x", limits, tmp_path) == []


def test_without_limits_all_is_allowed_as_before(secrets: Path, tmp_path: Path) -> None:
    line = f"loader.source.password=${{file:{secrets}/out}}\nspark.executor.memory=1g"
    assert errors(line, "", tmp_path) == []


def test_the_settings_own_files_are_not_limited(secrets: Path, tmp_path: Path) -> None:
    file = tmp_path / "cdcbus.properties"
    file.write_text(f"node.files=none\nzookeeper=${{file:{secrets}/password}}:1\n")
    assert read_bus_settings({}, file, {}).zookeeper == "pw:1"


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("consumer.eventProcessor.className=shop.rules:mask", "shop"),
        ("consumer.eventProcessor.className=shop.rules:mask", "shop.rules"),
        ("consumer.eventProcessor.className=shop.rules:mask", "other,shop.rules:mask"),
        ("spark.executor.memory=1g", "spark.executor.memory"),
        ("consumer.source.spark.executor.memory=1g", "spark.executor.memory"),
        ("loader.source.spark.x=1", "loader.source.spark.x"),
        ("consumer.converter=canalRow", "none"),
        ("kafka.client.id=x", "none"),
        ("kafka.ssl.keystore.type=PEM", "none"),
        ("kafka.sasl.login.class=", "none"),
        ("kafka.sasl.login.class=a.B", "kafka.sasl.login.class"),
        ("consumer.source.kafka.sasl.login.class=a.B", "kafka.sasl.login.class"),
        ("kafka.sasl.login.class=a.B", "x,a.B"),
        ("kafka.sasl.kerberos.principal=cdc/h.example@EXAMPLE", "none"),
        (f"kafka.sasl.jaas.config={KAFKA}.plain.PlainLoginModule {LOGIN}", "none"),
        (f"consumer.source.kafka.sasl.jaas.config={KAFKA}.scram.ScramLoginModule {LOGIN}", "none"),
    ],
)
def test_what_is_named_or_built_in_is_loaded(line: str, allowed: str, tmp_path: Path) -> None:
    assert errors(line, f"node.modules={allowed}", tmp_path) == []


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("consumer.eventProcessor.className=os:system", "none"),
        ("consumer.eventProcessor.className=shop.rules:mask", "shop.rule"),
        ("consumer.eventProcessor.className=shopping:mask", "shop"),
        ("spark.jars=/tmp/x.jar", "spark"),
        ("spark.driver.extraJavaOptions=-javaagent:/tmp/x.jar", "shop"),
        ("consumer.source.spark.jars=/tmp/x.jar", "none"),
        ("loader.source.spark.jars=/tmp/x.jar", "spark.executor.memory"),
        ("kafka.plugin.library.paths=/tmp/x.so", "shop"),
        ("consumer.source.kafka.plugin.library.paths=/tmp/x.so", "none"),
        ("kafka.ssl.engine.location=/tmp/x.so", "none"),
        ("kafka.ssl.providers=/tmp/x", "none"),
        ("kafka.sasl.login.class=a.B", "none"),
        ("kafka.sasl.client.callback.handler.class=a.B", "none"),
        ("kafka.ssl.engine.factory.class=a.B", "none"),
        ("kafka.sasl.login.class=a.B", "a"),
        (f"kafka.sasl.jaas.config=aws.OtherModule {LOGIN}", "aws.IAMLoginModule"),
        ("kafka.metric.reporters=a.B", "none"),
        ("kafka.security.providers=a.B", "none"),
        ("kafka.config.providers=a", "none"),
        ("kafka.partition.assignment.strategy=a.B", "none"),
        ("kafka.sasl.kerberos.kinit.cmd=touch /tmp/x", "none"),
        ("kafka.sasl.kerberos.principal=x; touch /tmp/x", "none"),
        (r"kafka.sasl.kerberos.principal=\n/tmp/x", "none"),
        ("kafka.sasl.kerberos.principal=a${IFS}b", "none"),
        ("kafka.sasl.kerberos.keytab=${SECRET}", "none"),
        # filled, it looks like a placeholder
        ("kafka.sasl.kerberos.principal=$${file:/dev/null}{env:-$(touch /tmp/x)}", "none"),
        (f"kafka.sasl.jaas.config=com.sun.security.auth.module.LdapLoginModule {LOGIN}", "none"),
        ("kafka.SASL.LOGIN.CLASS=a.B", "none"),
        ("loader.source.kafka.Metric.Reporters=a.B", "none"),
        (f"kafka.Sasl.Jaas.Config=evil.PlainLoginModule {LOGIN}", "none"),
        (f"kafka.sasl.jaas.config=evil.PlainLoginModule {LOGIN}", "none"),
        (f"kafka.sasl.jaas.config=/*{KAFKA}.plain.PlainLoginModule */ a.B {LOGIN}", "none"),
    ],
)
def test_no_other_code_is_loaded(line: str, allowed: str, tmp_path: Path) -> None:
    # What cannot be loaded for other reasons has other errors, too.
    (found, *_) = errors(line, f"node.modules={allowed}", tmp_path)
    assert found.startswith(line.partition("=")[0])
    assert "the setting node.modules of this machine" in found


@pytest.mark.parametrize("blank", ["", " ", "\u3000", "\u00a0", "\u2003"])
def test_no_blank_hides_the_name_of_a_converter(
    monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    """Settings are read without any of them."""
    monkeypatch.setattr(allow_lists, "is_added_converter", lambda name: name == "added")
    [(key, _)] = allow_lists.forbidden_code(
        {"consumer.converter": f"{blank}added"}, {MODULES: "none"}
    )
    assert key == "consumer.converter"


def test_a_login_module_is_allowed_by_its_class(tmp_path: Path) -> None:
    line = f"kafka.sasl.jaas.config=aws.IAMLoginModule {LOGIN}"
    # Clients outside Java have no such login, which is another error.
    found = errors(line, "node.modules=x, aws.IAMLoginModule", tmp_path)
    assert "node.modules" not in str(found)


@pytest.mark.parametrize(
    "line",
    [
        f"kafka.sasl.jaas.config=x.IAMLoginModule {LOGIN}",
        "consumer.source.kafka.sasl.login.class=SECRET",
        "kafka.sasl.kerberos.keytab=/etc/key tab",
    ],
)
def test_the_sentence_does_not_advise_to_allow_all_that_a_key_can_load(
    line: str, tmp_path: Path
) -> None:
    (found, *_) = errors(line, "node.modules=none", tmp_path)
    _, _, advice = found.partition(": ")
    assert "kafka." not in advice
    assert "add that class to it" in advice or "write letters, digits and" in advice
    assert "SECRET" not in advice


@pytest.mark.parametrize("option", ["sasl.jaas.config", "sasl.kerberos.principal"])
def test_a_placeholder_that_is_filled_elsewhere_is_checked_there(option: str) -> None:
    line = f"kafka.{option}=${{env:NO_SUCH_VARIABLE}}\nkafka.sasl.username=u\n"
    found = inspect_text(LOAD + line, {MODULES: "none"}).diagnostics
    assert all("node.modules" not in each.sentence for each in found.found)


def test_a_task_that_is_refused_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "cdcbus.properties"
    file.write_text("node.modules=none\n", encoding="utf-8")
    filling = read_bus_settings({}, file, {}).filling
    line = "consumer.eventProcessor.className=os:system\n"
    with pytest.raises(ConfigError, match=r"os:system may not be used here"):
        inspect_text(LOAD + line, filling, Severity.ERROR).ready("task t")


@pytest.mark.parametrize(
    ("line", "settings", "sentence"),
    [
        ("", "", None),
        ("environment=prod", "environment=prod", None),
        ("environment=prod", "", "is of environment prod, and this machine has no environment"),
        ("environment=prod", "environment=test", "and this machine is of environment test"),
        ("", "environment=prod", "missing; this machine is of environment prod"),
    ],
)
def test_task_and_machine_must_agree_on_their_environment(
    line: str, settings: str, sentence: str | None, tmp_path: Path
) -> None:
    found = errors(line, settings, tmp_path)
    assert (sentence is None) == (found == [])
    if sentence:
        assert found[0].startswith("environment: ")
        assert sentence in found[0]


OWN = "holds (a secret|secrets) of this machine's own settings"


def test_secrets_of_the_settings_fill_no_task(
    secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may edit tasks, but not administer nodes, would see the console's token in the text of a
    check, or as the name of a topic."""
    for name in ("CDCBUS_HTTP_TOKEN", "MAIL", "SHOP"):
        monkeypatch.setenv(name, "0123456789abcdef")
    settings = (
        f"http.person.ada.token=${{file:{secrets}/password}}\nhttp.person.ada.role=read\n"
        f"alarm.smtp.password=${{env:MAIL}}\nsecret.keyFile={tmp_path}/shadow"
    )
    (tmp_path / "link").symlink_to(secrets / "password")

    def refused(placeholder: str) -> bool:
        found = errors(f"loader.source.password={placeholder}", settings, tmp_path)
        assert "0123456789abcdef" not in str(found)
        return len(found) == 1 and re.search(OWN, found[0]) is not None

    for own in ("env:CDCBUS_HTTP_TOKEN", "env:MAIL"):
        assert refused(f"${{{own}}}"), own
    for file in ("secrets/password", "link", "cdcbus.properties:http.person.ada.role", "shadow"):
        assert refused(f"${{file:{tmp_path}/{file}}}"), file
    for place in ("self/environ", "self/../thread-self/environ"):
        assert refused(f"${{file:/proc/{place}}}"), place
    assert not refused("${env:SHOP}")
    assert not refused(f"${{file:{tmp_path}/secrets-of-others}}")


def test_of_a_file_with_several_secrets_the_settings_keep_their_own(tmp_path: Path) -> None:
    shared = tmp_path / "shared.properties"
    shared.write_text("token=0123456789abcdef\nshop=pw\n", encoding="utf-8")
    settings = f"http.token=${{file:{shared}:token}}"
    assert errors(f"loader.source.password=${{file:{shared}:shop}}", settings, tmp_path) == []
    for rest in (":token", ""):
        line = f"loader.source.password=${{file:{shared}{rest}}}"
        assert len(errors(line, settings, tmp_path)) == 1

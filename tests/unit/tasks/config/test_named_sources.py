"""Named sources: where they are found, and how a task gets their keys."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.encryption import KEY_FILE_VARIABLE
from cdcbus.tasks.config.named_sources import (
    NamedSource,
    check_pairs,
    first_of,
    in_folders,
    names_in,
    pairs_for_zookeeper,
    read_source_file,
    source_folders,
    write_source_file,
)
from cdcbus.tasks.config.placeholders import interpolate
from cdcbus.tasks.config.read_task import Inspection, inspect_task, inspect_text, read_task
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.zookeeper.source_registry import source_in

LOAD = """\
taskId=1
consumer.consumerName=KafkaFetch
consumer.source.servers=k:1
consumer.source.topics=a
loader.loaderName=JdbcBatch
loader.source.sourceName=SHOP
"""
FETCH = """\
taskId=2
consumer.consumerName=CanalFetch
consumer.source.sourceName=DB
loader.loaderName=KAFKA_SYNC
loader.source.sourceName=BUS
loader.source.topic=t
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    return folder


def task_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "task.properties"
    file.write_text(text, encoding="utf-8")
    return file


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.properties"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_task_gets_the_keys_of_its_source_and_its_own_win(tmp_path: Path, sources: Path) -> None:
    write(
        sources, "SHOP", "url=jdbc:mysql://h/db\nuserName=shared\npassword=${env:P}\nmaxPoolSize=3"
    )
    read = read_task(
        task_file(tmp_path, LOAD + "loader.source.userName=own\nloader.source.password="),
        {"P": "s3cret"},
    )
    assert isinstance(read.task, LoadTask)
    target = read.task.target
    assert isinstance(target, JdbcTarget)
    assert (target.url, target.user, target.password, target.pool_size) == (
        "jdbc:mysql://h/db",
        "own",
        "s3cret",
        3,
    )
    assert (read.warnings, read.notes) == ([], [])


def test_both_sides_of_a_task_may_name_one(tmp_path: Path, sources: Path) -> None:
    write(sources, "DB", "address=db1:3306\nusername=cdc")
    write(sources, "BUS", "servers=k1:9092\nkafka.linger.ms=7")
    task = read_task(task_file(tmp_path, FETCH), {}).task
    assert isinstance(task, FetchTask)
    assert (task.source.addresses, task.source.user) == ((("db1", 3306),), "cdc")
    assert (task.publish.servers, task.publish.kafka_options) == ("k1:9092", {"linger.ms": "7"})


def test_what_is_wrong_in_a_source_names_the_task_line_and_the_source_line(
    tmp_path: Path, sources: Path
) -> None:
    kept = write(
        sources,
        "SHOP",
        "url=jdbc:mysql://h/db\nmaxPoolSize=x\nusrName=u\npassword=s3cret\nuserName=${env:U}",
    )
    diagnostics = inspect_task(task_file(tmp_path, LOAD), {}).diagnostics
    told = {(f.severity, f.line, f.key): f.sentence for f in diagnostics.found}
    assert set(told) == {
        (Severity.ERROR, 6, "loader.source.maxPoolSize"),
        (Severity.ERROR, 6, "loader.source.usrName"),
        (Severity.WARNING, 6, "loader.source.password"),
        (Severity.NOTE, 6, "loader.source.userName"),
    }
    assert told[Severity.ERROR, 6, "loader.source.maxPoolSize"].endswith(f"(source SHOP, {kept}:2)")
    usr_name = told[Severity.ERROR, 6, "loader.source.usrName"]
    assert "it looks like userName: correct it" in usr_name and f"{kept}:3" in usr_name
    assert told[Severity.NOTE, 6, "loader.source.userName"].endswith(f"(source SHOP, {kept}:5)")
    assert "s3cret" not in str(diagnostics)


LISTED = "address=db1:3306\nusername=cdc\nblackFiltr=shop.secret"
OF_BUS = "servers=k1:9092"


@pytest.mark.parametrize(
    "stored",
    [
        lambda name, text: read_source_file(name, write(Path(), name, text)),
        lambda name, text: source_in(name, of_zookeeper(text)),
        lambda name, text: of_settings(name, text),
    ],
    ids=["file", "ZooKeeper", "cdcbus.properties"],
)
def test_a_misspelt_key_of_a_source_refuses_the_task_unless_it_says_that_it_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: Callable[[str, str], NamedSource]
) -> None:
    """Rows that the list was to keep back would go out."""
    monkeypatch.chdir(tmp_path)
    texts = {"DB": LISTED, "BUS": OF_BUS}
    file = task_file(tmp_path, FETCH)

    def inspected() -> Inspection:
        return inspect_task(file, {}, sources=lambda name: stored(name, texts[name]))

    (error,) = inspected().diagnostics.of(Severity.ERROR)
    assert (error.line, error.key) == (3, "consumer.source.blackFiltr")
    assert "it looks like blackFilter: correct it" in error.sentence
    assert error.sentence.endswith(
        "or write check.allow=consumer.source.blackFiltr if this is intended"
    )
    file.write_text(f"{FETCH}check.allow=consumer.source.blackFiltr\n", encoding="utf-8")
    assert inspected().task is not None
    texts["DB"] = LISTED.replace("blackFiltr", "blackFilter")
    file.write_text(FETCH, encoding="utf-8")
    assert inspected().task is not None


def of_zookeeper(text: str) -> bytes:
    pairs = dict(line.split("=", 1) for line in text.splitlines())
    return json.dumps({"source": pairs}).encode()


def of_settings(name: str, text: str) -> NamedSource:
    lines = [f"porter.source.{name}.{line}\n" for line in text.splitlines()]
    Path("cdcbus.properties").write_text("".join(lines), encoding="utf-8")
    found = read_bus_settings({}, None, {}).sources[name]
    Path("cdcbus.properties").unlink()
    return found


def test_a_key_of_the_other_side_is_not_passed_over(tmp_path: Path, sources: Path) -> None:
    kept = write(sources, "SHOP", "url=jdbc:mysql://h/db\nusername=u")
    (warning,) = read_task(task_file(tmp_path, LOAD), {}).warnings
    assert (warning.line, warning.key) == (6, "loader.source.username")
    assert warning.sentence.endswith(
        f"without effect here; did you mean userName? (source SHOP, {kept}:2)"
    )


def test_a_name_leads_to_no_other_folder(tmp_path: Path, sources: Path) -> None:
    write(tmp_path, "SHOP", "url=jdbc:mysql://h/db")
    errors = inspect_task(
        task_file(tmp_path, LOAD.replace("=SHOP", "=../SHOP")), {}
    ).diagnostics.of(Severity.ERROR)
    assert [error.sentence.split(";")[0] for error in errors] == ["wrong value '../SHOP'"]


def test_a_source_that_is_nowhere_is_the_one_error_about_it(tmp_path: Path) -> None:
    errors = inspect_task(task_file(tmp_path, LOAD), {}).diagnostics.of(Severity.ERROR)
    assert [(error.line, error.key) for error in errors] == [(6, "loader.source.sourceName")]
    assert "no source is called 'SHOP'" in errors[0].sentence
    with pytest.raises(ConfigError, match="no source is called 'SHOP'"):
        read_task(tmp_path / "task.properties", {})


def test_a_source_that_cannot_be_asked_for_is_an_error_at_its_line(tmp_path: Path) -> None:
    def away(_name: str) -> NamedSource | None:
        raise PositionUnavailable("ZooKeeper is away")

    with pytest.raises(
        ConfigError, match=r"task\.properties:6: loader\.source\.sourceName: ZooKeeper is away"
    ):
        read_task(task_file(tmp_path, LOAD), {}, away)


def test_nothing_is_asked_for_a_task_without_a_source(tmp_path: Path) -> None:
    def asked(_name: str) -> NamedSource | None:
        raise AssertionError

    text = LOAD.replace("sourceName=SHOP", "url=jdbc:mysql://h/db")
    assert read_task(task_file(tmp_path, text), {}, asked).task.task_id == "1"


def test_a_file_is_taken_before_what_comes_after_it(tmp_path: Path, sources: Path) -> None:
    write(sources, "A", "url=file")
    lookup = first_of(in_folders((sources,)), lambda name: NamedSource(name, "ZooKeeper", {}))
    assert [found.where for name in ("A", "B") if (found := lookup(name))] == [
        str(sources / "A.properties"),
        "ZooKeeper",
    ]


def test_the_folders_of_sources(tmp_path: Path) -> None:
    task = tmp_path / "task.properties"
    assert source_folders("", task) == (tmp_path / "sources", Path("sources"))
    assert source_folders("", Path("task.properties")) == (Path("sources"),)
    assert source_folders("shared", task) == (Path("shared"),)


def test_what_is_shown_of_a_source_has_no_secret(sources: Path) -> None:
    text = "url=jdbc:mysql://u:s3cret@h/db\npassword=s3cret${env:P}\nkafka.sasl.jaas.config=s3cret\nuserName=u\nmaxPoolSize=${env:N}"
    shown = read_source_file("A", write(sources, "A", text)).shown()
    assert shown == {
        "url": "***",
        "password": "***${env:P}",
        "kafka.sasl.jaas.config": "***",
        "userName": "u",
        "maxPoolSize": "${env:N}",
    }


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("usrName", "u", "did you mean userName?"),
        ("sourceName", "B", "not a key of a source"),
        ("maxPoolSize", "x", "expected a whole number"),
        ("url", "mysql://h", "expected jdbc:mysql:"),
    ],
)
def test_a_pair_that_no_source_has_is_refused(name: str, value: str, sentence: str) -> None:
    check_pairs(
        {"url": "jdbc:mysql://h/db", "maxPoolSize": "${env:N}", "username": "u", "kafka.a": "b"}
    )
    with pytest.raises(ConfigError, match=name) as raised:
        check_pairs({name: value})
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "s3cret"),
        ("url", "jdbc:mysql://h/db?user=u&password=s3cret"),
        ("url", "jdbc:postgresql://u:s3cret@h/db"),
        ("url", "jdbc:oracle:thin:scott/s3cret@h:1521:x"),
        ("kafka.ssl.key.password", "s3cret"),
    ],
)
def test_a_secret_is_encrypted_for_zookeeper_or_refused(
    name: str, value: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="not stored in ZooKeeper") as raised:
        pairs_for_zookeeper({"userName": "u", name: value}, {})
    assert "s3cret" not in str(raised.value)
    filled = value.replace("s3cret", "${env:P}")
    assert pairs_for_zookeeper({name: filled}, {}) == {name: filled}
    key = tmp_path / "key"
    key.write_bytes(Fernet.generate_key())
    environ = {KEY_FILE_VARIABLE: str(key)}
    kept = pairs_for_zookeeper({"userName": "u", name: value}, environ)
    assert "s3cret" not in str(kept)
    assert {name: interpolate(text, environ) for name, text in kept.items()} == {
        "userName": "u",
        name: value,
    }


def test_a_written_file_is_read_back_and_not_replaced_unasked(tmp_path: Path) -> None:
    file = tmp_path / "new" / "A.properties"
    pairs = {"url": "jdbc:mysql://h/db?x=1", "password": " \\ü ${env:P}"}
    write_source_file(file, pairs, is_replacing=False)
    assert {
        key: entry.written for key, entry in read_source_file("A", file).entries.items()
    } == pairs
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="--replace"):
        write_source_file(file, {}, is_replacing=False)
    write_source_file(file, {"userName": "u"}, is_replacing=True)
    assert list(read_source_file("A", file).entries) == ["userName"]
    assert names_in((file.parent, tmp_path / "nowhere")) == ["A"]


def test_all_that_is_wrong_is_told_at_once_even_where_a_source_is_missing() -> None:
    text = """taskId=t
consumer.consumerName=KafkaFetch
consumer.source.sourceName=NOWHERE
consumer.converter=nonesuch
loader.loaderName=JdbcBatch
"""
    found = inspect_text(text, {}, sources=lambda name: None)
    assert found.task is None
    # What the source may have is not told to be missing: its servers, topics, and where to start.
    assert {each.key for each in found.diagnostics.of(Severity.ERROR)} == {
        "consumer.source.sourceName",
        "consumer.converter",
        "loader.source.url",
    }

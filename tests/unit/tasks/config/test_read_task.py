"""Whatever text: a task, or a ConfigError that names file and key. And a file written back means
the same."""

from pathlib import Path
from tempfile import TemporaryDirectory

import javaproperties
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys.definition import Route
from cdcbus.tasks.config.keys.task import KEYS
from cdcbus.tasks.config.read_task import ReadTask, inspect_task, inspect_text, read_task
from tests.unit.tasks.any_task import entries

ENVIRON = {"A": "a"}
WORDS = st.sampled_from(
    [
        "true",
        "no",
        "1",
        "-1",
        "0",
        "99999999999999999999",
        "a,b",
        "h:1",
        "mysql-bin.1",
        "2024-01-01",
        "",
        " ",
        "\x00",
    ]
)


def read(text: str, **environ: str) -> ReadTask:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "task.properties"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        return read_task(file, environ)


def written(entries: dict[str, str], separator: str = "=", prefix: str = "") -> str:
    return javaproperties.dumps(
        {prefix + key: value for key, value in entries.items()},
        separator=separator,
        timestamp=False,
    )


@given(st.one_of(entries(Route.LOAD), entries(Route.FETCH), entries(Route.FORWARD)), st.booleans())
def test_a_file_written_back_gives_the_same_task_and_the_same_errors(
    keys: dict[str, str], is_prefixed: bool
) -> None:
    first = inspect_text(written(keys), ENVIRON)
    texts = {key: entry.written for key, entry in first.entries.items()}
    again = inspect_text(written(texts, " : ", "porter.task[0]." if is_prefixed else ""), ENVIRON)
    assert again.task == first.task
    assert {key: entry.written for key, entry in again.entries.items()} == texts
    assert [(f.key, f.sentence) for f in again.diagnostics.of(Severity.ERROR)] == [
        (f.key, f.sentence) for f in first.diagnostics.of(Severity.ERROR)
    ]
    if first.task is not None:
        assert isinstance(
            first.task, LoadTask if keys["consumer.consumerName"] == "KafkaFetch" else FetchTask
        )


def may_only_be_refused(text: str) -> None:
    try:
        read(text, A="1")
    except ConfigError as error:
        for line in str(error).splitlines():
            assert "task.properties" in line
        str(error).encode()


@given(st.text())
@example("\\")
@example("a\\\r\n")
@example("taskId=\ud800")
@example("taskId=\\ud83d\\ude00\\ud83d")
@example("mapper[99999999999].schema=a,b")
@example("{")
@example(' [{"taskId": 1}]')
@example('{"taskId": {"a": ["b", {"c": null}]}}')
@example("kafka.\\u000a\\u001b[31m=${env:B}")
def test_any_text_is_read_or_refused(text: str) -> None:
    may_only_be_refused(text)


@given(st.lists(st.tuples(st.sampled_from(sorted(KEYS)), st.one_of(st.text(), WORDS))))
def test_any_values_of_known_keys_are_read_or_refused(entries: list[tuple[str, str]]) -> None:
    may_only_be_refused("\n".join(f"{key.replace('[i]', '[1]')}={value}" for key, value in entries))


@given(
    st.sampled_from(sorted(KEYS)),
    st.one_of(st.text(), WORDS, st.sampled_from(["${env:A}${env:B}${file:/}", "${encrypted:x}"])),
)
@example("consumer.source.filter", "(" * 5000)
@example("consumer.offset", "1" * 5000)
@example("consumer.offset", "9999-12-31T23:59:59-23:59")
@example("consumer.offset", "0001-01-01T00:00:00+23:59")
def test_one_odd_value_in_a_good_file_is_read_or_refused(name: str, value: str) -> None:
    for start in (
        "taskId=1\nconsumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\nconsumer.source.topics=a\nloader.loaderName=JdbcBatch\n",
        "taskId=1\nconsumer.consumerName=CanalFetch\nconsumer.source.address=k:1\nloader.source.topic=a\nloader.loaderName=KAFKA_SYNC\n",
    ):
        may_only_be_refused(start + name.replace("[i]", "[1]") + "=" + value)


def test_all_errors_are_told_at_once_each_with_file_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "task.properties"
    file.write_text(
        "taskId=a/b\nconsumer.consumerName=KafkaFetch\nloader.loaderName=JdbcBatch\nconsumer.source.partition=x\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        read_task(file, {})
    assert [
        line.removeprefix(f"{file}").split(";")[0] for line in str(raised.value).splitlines()
    ] == [
        ": consumer.source.servers: missing",
        ": consumer.source.topics: missing",
        ": loader.source.url: missing",
        ":1: taskId: wrong value 'a/b'",
        ":4: consumer.source.partition: wrong value 'x'",
    ]
    assert all("expected" in line and "example" in line for line in str(raised.value).splitlines())


def topic_task(topics: str, partition: str) -> str:
    return (
        f"taskId=1\nconsumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\nconsumer.source.topics={topics}\n"
        f"loader.loaderName=JdbcBatch\nloader.source.url=jdbc:mysql://h/db\nconsumer.source.partition={partition}\n"
    )


@pytest.mark.parametrize(
    ("topics", "written", "partitions"),
    [
        ("a", "", ()),
        ("a", "0", (0,)),
        ("a", "7", (7,)),
        ("a", " 10, 2 ,0 ", (0, 2, 10)),
        ("a,b", "0", ()),
        ("a,b", "0,1", (0, 1)),
    ],
)
def test_partitions_are_chosen_by_one_number_or_several(
    topics: str, written: str, partitions: tuple[int, ...], tmp_path: Path
) -> None:
    file = tmp_path / "task.properties"
    file.write_text(topic_task(topics, written), encoding="utf-8")
    task = read_task(file, {}).task
    assert isinstance(task, LoadTask)
    assert task.source.partitions == partitions


@pytest.mark.parametrize(
    "written", ["x", "-1", "0,-1", "1,1", "1,01", "0,b", "0;2", "1.5", "0-2", ",", "2147483648"]
)
def test_what_is_no_choice_of_partitions_is_refused_by_file_line_and_key(
    written: str, tmp_path: Path
) -> None:
    file = tmp_path / "task.properties"
    file.write_text(topic_task("a", written), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_task(file, {})
    assert str(raised.value) == (
        f"{file}:7: consumer.source.partition: wrong value '{written}'; expected numbers from 0, "
        "each once, separated by commas; "
        "example: consumer.source.partition=0,2"
    )


def test_a_missing_secret_stops_a_run_and_is_noted_by_a_check(tmp_path: Path) -> None:
    file = tmp_path / "task.properties"
    file.write_text(
        "taskId=1\nconsumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\nconsumer.source.topics=a\nloader.loaderName=JdbcBatch\n"
        "loader.source.url=${env:URL}\n",
        encoding="utf-8",
    )
    with pytest.raises(
        ConfigError,
        match=r"task\.properties:6: loader\.source\.url: environment variable 'URL' is not set",
    ):
        read_task(file, {})
    assert [diagnostic.severity for diagnostic in inspect_task(file, {}).diagnostics.found] == [
        Severity.NOTE
    ]
    assert "mysql" in str(read_task(file, {"URL": "jdbc:mysql://h/db"}).task)


def test_a_wrong_secret_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "task.properties"
    file.write_text(
        "consumer.source.partition=${env:SECRET}\nloader.source.url=mysql://u:s3cret@h/db\nconsumer.metaSource.password=s3cret",
        encoding="utf-8",
    )
    diagnostics = inspect_task(file, {"SECRET": "s3cret"}).diagnostics.found
    assert {diagnostic.line for diagnostic in diagnostics} >= {1, 2, 3}
    assert "s3cret" not in str(diagnostics)


def test_warnings_and_notes_come_with_the_task(tmp_path: Path) -> None:
    read_back = read(
        "taskId=1\nconsumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\nconsumer.source.topics=a\nloader.loaderName=JdbcBatch\n"
        "loader.source.url=jdbc:mysql://h/db\nstatus=NEW\nmapper[0].auto=1\n"
    )
    assert [(diagnostic.line, diagnostic.key) for diagnostic in read_back.warnings] == [
        (8, "mapper[0].auto")
    ]
    assert [(diagnostic.line, diagnostic.key) for diagnostic in read_back.notes] == [(7, "status")]


@pytest.mark.parametrize(
    "line",
    [
        "loader.weight.=3",
        "mapper[0].column.=x",
        "mapper[0].mask.=x",
        "mapper[1234567].schema=a,b",
        "mapper[1234567].ignore=a.*",
        f"mapper[{'9' * 5000}].table=a,b",
    ],
)
def test_a_key_without_its_name_or_with_too_long_a_number_is_an_unknown_key(line: str) -> None:
    text = (
        "taskId=1\nconsumer.consumerName=KafkaFetch\nconsumer.source.servers=k:1\nconsumer.source.topics=a\nloader.loaderName=JdbcBatch\n"
        f"loader.source.url=jdbc:mysql://h/db\nmapper[0].table=a,b\n{line}\n"
    )
    found = inspect_text(text, ENVIRON).diagnostics.found
    assert [(diagnostic.line, diagnostic.key) for diagnostic in found] == [
        (8, line.partition("=")[0])
    ]
    assert "unknown key" in found[0].sentence


@pytest.mark.parametrize("table", ["orders", "shop.", ".orders"])
def test_a_partition_key_without_its_schema_is_an_unknown_key(table: str) -> None:
    text = (
        "taskId=1\nconsumer.consumerName=CanalFetch\nconsumer.source.address=h:1\n"
        "loader.loaderName=KAFKA_SYNC\nloader.source.servers=k:1\nloader.source.topic=a\n"
        f"loader.source.partitionKey.{table}=id\n"
    )
    found = inspect_text(text, ENVIRON).diagnostics.found
    keys = [diagnostic.key for diagnostic in found if "unknown key" in diagnostic.sentence]
    assert keys == [f"loader.source.partitionKey.{table}"]


@pytest.mark.parametrize(
    "address",
    [
        "root:SECRET@db:3306",
        "root:SECRET@db",
        "db1:3306,root:SEC/RET=@db:3306",
        "mysql://root:SECRET@db:3306",
    ],
)
@pytest.mark.parametrize("key", ["consumer.source.address", "loader.source.servers"])
def test_a_login_in_an_address_is_refused_and_not_shown(key: str, address: str) -> None:
    text = (
        "taskId=1\nconsumer.consumerName=CanalFetch\nconsumer.source.address=h:1\n"
        f"loader.source.servers=k:1\nloader.source.topic=a\nloader.loaderName=KAFKA_SYNC\n{key}={address}\n"
    )
    found = inspect_text(text, {}).diagnostics.of(Severity.ERROR)
    (about,) = [each.sentence for each in found if each.key == key]
    assert "expected host:port" in about
    assert "SEC" not in about
    assert "RET" not in about

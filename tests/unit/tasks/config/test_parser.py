from pathlib import Path
from time import process_time

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Diagnostics, Severity
from cdcbus.tasks.config.parser import (
    MOST_HINTS,
    Entry,
    Vocabulary,
    read_entries,
    read_text,
    written_entries,
)


def entries(text: str, **environ: str) -> tuple[dict[str, Entry], list[str]]:
    diagnostics = Diagnostics()
    read = read_entries(text, environ, diagnostics, Severity.ERROR)
    return read, [f"{f.severity}:{f.line}:{f.key}" for f in diagnostics.found]


def values(text: str) -> dict[str, str]:
    return {key: entry.value for key, entry in entries(text)[0].items()}


def test_a_doubled_backslash_is_one() -> None:
    assert values(r"consumer.source.filter=shop\\.orders") == {
        "consumer.source.filter": r"shop\.orders"
    }


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_over_remarks_and_continuations(end: str) -> None:
    text = end.join(
        ["# remark", "", "taskId=\\", "  1", "! other \\", "nodeId : 2", " status\tNEW"]
    )
    assert {(entry.key, entry.value, entry.line) for entry in entries(text)[0].values()} == {
        ("taskId", "1", 3),
        ("nodeId", "2", 6),
        ("status", "NEW", 7),
    }


def test_porters_prefix_is_taken_off_and_the_plain_form_is_the_same_key() -> None:
    read, found = entries("porter.task[0].taskId=1\ntaskId=2")
    assert read["taskId"].value == "2"
    assert found == ["warning:2:taskId"]


def test_two_tasks_in_one_file_are_an_error() -> None:
    assert entries("porter.task[0].taskId=1\nporter.task[1].taskId=2")[1] == [
        "warning:2:taskId",
        "error:0:",
    ]


def test_the_last_of_a_repeated_key_counts() -> None:
    read, found = entries("nodeId=1\nnodeId=2\nnodeId=3")
    assert read["nodeId"].value == "3"
    assert found == ["warning:2:nodeId", "warning:3:nodeId"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("latest ## from the end", "latest"),
        ("latest\t# from the end", "latest"),
        ("latest   ", "latest"),
        ("latest#1", "latest#1"),
        ("a  b", "a  b"),
    ],
)
def test_remarks_and_trailing_blanks_are_left_out(written: str, value: str) -> None:
    read, found = entries(f"consumer.offset={written}")
    assert read["consumer.offset"].value == value
    assert found == ([] if written == value else ["warning:1:consumer.offset"])


@pytest.mark.parametrize(
    "key",
    [
        "mapper[0].expression.label",
        "mapper[12].constant.label",
        "mapper[0].mask.card",
        "consumer.source.plugin.query",
    ],
)
def test_free_text_may_hold_a_number_sign(key: str) -> None:
    read, found = entries(f"{key}=Order #{{id}} ")
    assert read[key].value == "Order #{id}"
    assert found == [f"note:1:{key}", f"warning:1:{key}"]


def test_a_secret_is_taken_as_it_stands() -> None:
    read, found = entries("loader.source.password=${env:DB} # 1 ", DB="x")
    assert read["loader.source.password"].value == "x # 1 "
    assert found == ["warning:1:loader.source.password"]


@pytest.mark.parametrize(
    "line",
    [
        "loader.source.password=abc",
        "kafka.sasl.jaas.config=abc",
        "kafka.ssl.keystore.password=abc",
        "consumer.metaSource.password=abc",
        "loader.source.url=jdbc:mysql://h/db?user=u&password=abc",
        "loader.source.url=jdbc:mysql://h/db?trustCertificateKeyStorePassword=abc",
        "loader.source.url=jdbc:oracle:thin:scott/abc@h:1521:orcl",
        "loader.source.url=jdbc:mysql://address=(host=h)(user=u)(password=abc)/db",
        "loader.source.url=jdbc:mysql://(host=h,user=u,password=abc)/db",
        "loader.source.url=jdbc:mysql://(host=h, user = u, password = abc)/db",
        "consumer.metaSource.url=jdbc:mysql://h/db?user=u&Password=abc",
        "consumer.source.url=jdbc:mysql://u:abc@h/db",
        "loader.source.url=jdbc:mysql://u:abc/d=@h/db",
        "loader.source.url=jdbc:mysql://u:12/abc=@h/db?useSSL=false",
        "loader.source.url=jdbc:postgresql://u:abc?d=e@h/db",
        "loader.source.url=jdbc:postgresql://u:abc;d@h/db",
        "loader.source.url=jdbc:oracle:thin:scott/abc?d@h:1521:orcl",
        'kafka.sasl.jaas.config=x required username="${env:U}" password="abc";',
        "kafka.ssl.key.pem=abc",
        "spark.kubernetes.authenticate.oauthToken=abc",
    ],
)
def test_an_inline_secret_is_warned_of_with_the_safe_form_and_without_the_secret(line: str) -> None:
    diagnostics = Diagnostics()
    read_entries(line, {"U": "u"}, diagnostics, Severity.ERROR)
    (diagnostic,) = diagnostics.found
    assert diagnostic.severity is Severity.WARNING
    assert "${env:NAME}" in diagnostic.sentence
    assert "abc" not in diagnostic.sentence


@pytest.mark.parametrize(
    "line",
    [
        "loader.source.password=${env:DB}",
        "loader.source.password=",
        "loader.source.url=jdbc:mysql://h/db?password=${env:DB}",
        "loader.source.url=jdbc:postgresql://h/db?sslmode=require",
        "loader.source.url=jdbc:mysql://(host=h,user=u,password=${env:DB})/db",
        "loader.source.url=jdbc:mysql://(host=h, user = u, password = ${env:DB})/db",
        "loader.source.url=jdbc:postgresql://h:5432/db?user=a@b",
        "loader.source.url=jdbc:postgresql://h1:1,h2:5432/db?sslmode=require&user=a@b",
        "loader.source.url=jdbc:postgresql://[::1]:5432/db?user=a@b",
        "loader.source.url=jdbc:postgresql://u:${env:DB}@h:5432/db?user=a@b",
        'kafka.sasl.jaas.config=x required username="u" password="${env:DB}";',
        "mapper[0].column.PASSWORD=pass",
        "loader.source.partitionKey.S.SECRETS=ID",
    ],
)
def test_no_warning_without_an_inline_secret(line: str) -> None:
    assert entries(line, DB="x")[1] == []


@pytest.mark.parametrize(
    ("unknown", "near"),
    [
        ("consumer.source.topic", "consumer.source.topics"),
        ("mapper[2].colum.A", "mapper[i].column."),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(unknown: str, near: str) -> None:
    diagnostics = Diagnostics()
    read_entries(f"{unknown}=1", {}, diagnostics, Severity.ERROR)
    assert near in diagnostics.found[0].sentence


def test_a_broken_escape_does_not_hide_what_follows() -> None:
    read, found = entries(
        "taskId=1\nnodeId=\\u12\nstatus=\\u00zz\nlocalTask=\\ud83d\nunknwn=1\nnodeId=3"
    )
    assert {key: entry.value for key, entry in read.items()} == {
        "taskId": "1",
        "unknwn": "1",
        "nodeId": "3",
    }
    assert found == ["error:2:", "error:3:", "error:4:localTask", "warning:5:unknwn"]


def test_broken_escapes_of_a_continued_element_are_told_line_by_line_once() -> None:
    read, found = entries(
        "taskId=1\nstatus=a\\\n  \\u12\\\n\\u00\\\nfc \\ux \\uy\\\nunknwn=\\u0\nnodeId=3"
    )
    assert {key: entry.value for key, entry in read.items()} == {"taskId": "1", "nodeId": "3"}
    assert found == ["error:3:", "error:5:", "error:6:"]


def test_an_escape_can_continue_in_the_next_line_and_a_key_begin_like_a_remark() -> None:
    assert values("a=\\u00\\\n  fc\n\\\n#b=1\n\\\n \\\n\nc=2\\") == {"a": "ü", "#b": "1", "c": "2"}


@pytest.mark.parametrize(
    ("line", "count"), [(r"\u12", 300), ("x" * 100, 600)], ids=["broken", "whole"]
)
def test_a_long_continued_element_takes_time_by_its_length(line: str, count: int) -> None:
    began = process_time()
    read, found = entries("taskId=\\\n" + f"{line}\\\n" * count)
    # Each line again, with all before it or behind it, takes several seconds.
    assert process_time() - began < 1
    if line == r"\u12":
        assert found == [f"error:{number + 2}:" for number in range(count)]
    else:
        assert read["taskId"].value == line * count


def test_utf8_is_read_and_anything_else_is_latin1_with_a_warning(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    file = tmp_path / "task.properties"
    file.write_bytes("\N{ZERO WIDTH NO-BREAK SPACE}# 备注\ntaskId=ü".encode())
    assert read_text(file, diagnostics).splitlines()[1] == "taskId=ü"
    assert diagnostics.found == []
    file.write_bytes("#\n# two\ntaskId=ü".encode("latin-1"))
    assert read_text(file, diagnostics).splitlines()[2] == "taskId=ü"
    assert [diagnostic.line for diagnostic in diagnostics.found] == [3]


@pytest.mark.parametrize("name", ["missing", "", "nul\0"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="the task file cannot be read"):
        read_text(tmp_path / name, Diagnostics())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_named_as_such_not_key_by_key(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "a.properties"
    file.write_bytes(("\ufefftaskId=1\n").encode(encoding))
    with pytest.raises(ConfigError, match="is in UTF-16; save it as UTF-8"):
        read_text(file, Diagnostics())


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_bytes(b"taskId=1\0\n")
    with pytest.raises(ConfigError, match=r"a\.properties: the task file has NUL bytes"):
        read_text(file, Diagnostics())


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="is larger than 16 MiB"):
        read_text(Path("/dev/zero"), Diagnostics())


def test_a_wrong_file_is_not_searched_for_thousands_of_similar_keys() -> None:
    """A log that is pasted into the console's editor kept the process of the node busy."""
    sought: list[str] = []

    def nearest(written: str) -> str:
        sought.append(written)
        return "taskId"

    found = Diagnostics()
    text = "".join(f"unknown{number}=x\n" for number in range(10_000))
    written_entries(text, found, Vocabulary(lambda _: None, nearest))
    assert sought == [f"unknown{number}" for number in range(MOST_HINTS)]
    assert len(found.found) == 10_000
    assert found.found[MOST_HINTS - 1].sentence.endswith("did you mean taskId?")
    assert found.found[MOST_HINTS].sentence.endswith("docs/configuration.md lists all keys")

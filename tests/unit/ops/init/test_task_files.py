from dataclasses import replace
from pathlib import Path

import pytest

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.init.server import Server
from cdcbus.ops.init.task_files import (
    Copy,
    Files,
    changed_keys,
    found_files,
    in_environment,
    keep_passwords,
    kept_passwords,
    places_of,
    texts,
)
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import NewTopics
from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.tasks.config.read_task import read_task

COPY = Copy(
    "shop",
    Server("mysql", "db1", 3306, "reader", "a b=\\#é"),
    Server("postgresql", "db2", 5432, "writer", "$(x) 'q'", "copy"),
    "k1:9092",
    "shop",
    "shop.*",
    "shop",
    "public",
    partitions=3,
    replicas=2,
)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, "shop", "postgresql")


def written(copy: Copy, files: Files) -> tuple[FetchTask, LoadTask]:
    """The tasks of the files, which say nothing odd."""
    keep_passwords(files, copy.passwords())
    for file, text in texts(copy, files, places_of(copy, files)).items():
        file.write_text(text, encoding="utf-8")
    read = [read_task(file, {}) for file in (files.fetch, files.load)]
    assert [each.warnings + each.notes for each in read] == [[], []]
    fetch, load = (each.task for each in read)
    assert isinstance(fetch, FetchTask)
    assert isinstance(load, LoadTask)
    return fetch, load


def test_the_files_are_tasks_that_belong_together(files: Files) -> None:
    fetch, load = written(COPY, files)
    assert (fetch.task_id, load.task_id) == ("shop-to-kafka", "shop-to-postgresql")
    assert fetch.source.addresses == (("db1", 3306),)
    assert fetch.snapshot is SnapshotMode.INITIAL
    assert fetch.publish.new_topics == NewTopics(3, 2)
    assert (fetch.publish.topic, *load.source.topics) == ("shop", "shop")
    assert isinstance(load.target, JdbcTarget)
    assert load.target.url == "jdbc:postgresql://db2:5432/copy"


def test_passwords_of_any_letters_come_back_and_only_their_owner_can_read_them(
    files: Files,
) -> None:
    fetch, load = written(COPY, files)
    assert isinstance(load.target, JdbcTarget)
    assert (fetch.source.password, load.target.password) == ("a b=\\#é", "$(x) 'q'")
    assert files.passwords.stat().st_mode & 0o777 == 0o600
    for file in (files.fetch, files.load):
        assert "é" not in file.read_text(encoding="utf-8")


def test_a_file_that_others_could_read_is_closed_to_them(files: Files) -> None:
    files.passwords.write_text("OTHER=x\n", encoding="utf-8")
    files.passwords.chmod(0o644)
    keep_passwords(files, {"SOURCE_PASSWORD": "a"})
    assert files.passwords.stat().st_mode & 0o777 == 0o600
    assert kept_passwords(files) == {"OTHER": "x", "SOURCE_PASSWORD": "a"}


def test_passwords_of_the_environment_stand_in_no_file(files: Files) -> None:
    copy = replace(COPY, variables=frozenset(["SOURCE_PASSWORD", "TARGET_PASSWORD"]))
    assert places_of(copy, files) == in_environment()


def test_no_password_is_a_line_that_is_a_remark(files: Files) -> None:
    copy = replace(COPY, target=replace(COPY.target, password=""))
    _, load = written(copy, files)
    assert isinstance(load.target, JdbcTarget)
    assert not load.target.password


def test_a_folder_that_no_placeholder_can_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--folder"):
        places_of(COPY, Files(tmp_path / "a:b", "shop", "mysql"))


def test_a_copy_into_mysql_of_two_schemas_keeps_their_names(files: Files) -> None:
    copy = replace(
        COPY,
        target=Server("mysql", "db2", 3306, "writer", "p", "shop"),
        tables="shop.a,crm.b",
        target_schema="",
    )
    fetch, load = written(copy, Files(files.folder, "shop", "mysql"))
    assert fetch.tables.regexes == ("shop\\.a", "crm\\.b")
    assert [rule.schema for rule in load.rules] == [None]


def test_copies_are_found_by_both_their_files(files: Files) -> None:
    assert found_files(files.folder, None) == []
    files.fetch.touch()
    assert found_files(files.folder, None) == []
    files.load.touch()
    assert found_files(files.folder, None) == [files]
    assert found_files(files.folder, "shop") == [files]
    assert found_files(files.folder, "other") == []


def test_what_two_texts_say_otherwise_is_named_by_key(files: Files) -> None:
    first, second = (
        texts(copy, files, in_environment())[files.fetch]
        for copy in (COPY, replace(COPY, kafka="k2:9092", partitions=4))
    )
    assert changed_keys(first, second) == ["loader.source.createTopic", "loader.source.servers"]

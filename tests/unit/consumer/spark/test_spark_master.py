from pathlib import Path

import pytest

from cdcbus.consumer.spark.settings import (
    check_hadoop_configuration,
    check_speculation,
    is_cluster,
    java_options,
    with_attempts,
)
from cdcbus.plugins.errors import ConfigError


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]"])
def test_local_masters_have_no_executors(master: str) -> None:
    assert not is_cluster(master)


@pytest.mark.parametrize(
    "master", ["spark://host:7077", "yarn", "k8s://https://host:6443", "local-cluster[2,1,1024]"]
)
def test_all_other_masters_have(master: str) -> None:
    assert is_cluster(master)


@pytest.mark.parametrize(
    ("master", "used"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("yarn", "yarn"),
    ],
)
def test_a_dead_worker_s_part_is_tried_again_with_local_masters_too(master: str, used: str) -> None:
    assert with_attempts(master) == used


@pytest.mark.parametrize(
    ("given", "environment", "is_ours"),
    [
        ("-XX:TieredStopAtLevel=4", {}, True),
        ("-XX:+UseG1GC", {}, False),
        ("-Xlog:gc -XX:+UseZGC -Dx=y", {}, False),
        ("", {"JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC"}, False),
        ("", {"OTHER": "-XX:+UseSerialGC"}, True),
    ],
)
def test_java_gets_one_collector_and_the_options_of_the_task_last(
    given: str, environment: dict[str, str], is_ours: bool
) -> None:
    options = java_options(given, environment)
    assert ("-XX:+UseParallelGC" in options) is is_ours
    assert options.endswith(given)


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_yarn_is_where_one_of_two_variables_says(name: str, tmp_path: Path) -> None:
    tmp_path.joinpath("yarn-site.xml").touch()
    check_hadoop_configuration({"HADOOP_CONF_DIR": "/nowhere", name: str(tmp_path)})


def test_without_its_configuration_nobody_looks_for_yarn(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"the folder of the cluster's yarn-site.xml: neither is set"
    ):
        check_hadoop_configuration({"HADOOP_CONF_DIR": ""})
    with pytest.raises(ConfigError, match=f"YARN_CONF_DIR is {tmp_path}, where there is none"):
        check_hadoop_configuration({"YARN_CONF_DIR": str(tmp_path)})


def test_speculation_is_refused() -> None:
    check_speculation({"spark.speculation": "false"})
    with pytest.raises(
        ConfigError,
        match=r"spark\.speculation=true has Spark apply one partition twice at the same time",
    ):
        check_speculation({"spark.speculation": "True"})

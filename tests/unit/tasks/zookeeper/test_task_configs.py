"""A task in porter's dist objects means what it means in its file, and holds no secret."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from cryptography.fernet import Fernet
from hypothesis import example, given
from hypothesis import strategies as st

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.encryption import KEY_FILE_VARIABLE
from cdcbus.tasks.config.keys.definition import Route
from cdcbus.tasks.config.read_task import inspect_dist, inspect_text
from cdcbus.tasks.porter.dist_json import parse_dist, properties_text
from cdcbus.tasks.zookeeper.task_configs import Dist, dists_of, merged, texts_of
from tests.unit.tasks.any_task import entries
from tests.unit.tasks.config.test_read_task import written

GOLDEN = Path(__file__).parents[3] / "golden" / "dist"
LOAD = """\
taskId=1
consumer.consumerName=KafkaFetch
consumer.source.servers=k:1
consumer.source.topics=B,A
loader.loaderName=JdbcBatch
loader.source.url=jdbc:mysql://h/db
loader.source.password=s3cret
"""


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    with TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.write_bytes(Fernet.generate_key())
        yield {KEY_FILE_VARIABLE: str(key), "A": "s3cret of A"}


def stored(text: str, environ: dict[str, str]) -> dict[str, Dist]:
    """What ZooKeeper gets, having been JSON."""
    inspection = inspect_text(text, environ)
    assert inspection.task is not None, inspection.diagnostics.of(Severity.ERROR)
    dists = dists_of(inspection.task, texts_of(inspection.entries, "f", environ))
    return {swimlane: parse_dist(orjson.dumps(dist).decode()) for swimlane, dist in dists.items()}


def read_back(dists: dict[str, Dist], environ: dict[str, str]) -> FetchTask | LoadTask:
    inspection = inspect_dist(merged([*dists.values()]), environ, Severity.ERROR, lambda _: None)
    assert inspection.task is not None, inspection.diagnostics.of(Severity.ERROR)
    return inspection.task


@given(st.one_of(entries(Route.LOAD), entries(Route.FETCH), entries(Route.FORWARD)))
def test_every_task_is_the_same_when_it_comes_back_and_no_secret_is_stored(
    environ: dict[str, str], keys: dict[str, str]
) -> None:
    inspection = inspect_text(written(keys), environ)
    if inspection.task is None:
        return  # keys that do not go together are not stored
    dists = stored(written(keys), environ)
    assert "s3cret" not in str(dists)
    assert read_back(dists, environ) == inspection.task
    again = inspect_text(properties_text(merged([*dists.values()])), environ)
    assert again.task == inspection.task


@pytest.mark.parametrize("route", [Route.LOAD, Route.FETCH, Route.FORWARD])
def test_most_of_those_tasks_can_run(environ: dict[str, str], route: Route) -> None:
    """The property above would hold for files with errors alone."""
    good: list[bool] = []

    @given(entries(route))
    def look(keys: dict[str, str]) -> None:
        good.append(inspect_text(written(keys), environ).task is not None)

    look()
    assert sum(good) > len(good) / 2


def test_each_topic_has_its_own_node_and_they_are_one_task(environ: dict[str, str]) -> None:
    dists = stored(LOAD, environ)
    assert {swimlane: dist["consumer"]["source"]["topics"] for swimlane, dist in dists.items()} == {
        "A": "A",
        "B": "B",
    }
    task = read_back(dists, environ)
    assert isinstance(task, LoadTask)
    assert task == replace(inspect_text(LOAD, environ).task, source=task.source)  # type: ignore[type-var]
    assert isinstance(task.target, JdbcTarget)
    assert (sorted(task.source.topics), task.target.password) == (["A", "B"], "s3cret")


def test_nodes_that_differ_are_no_task(environ: dict[str, str]) -> None:
    dists = stored(LOAD, environ)
    dists["A"]["loader"]["source"]["userName"] = "s3cret"
    with pytest.raises(
        ConfigError, match=r"differ in loader\.source\.userName; expected the same"
    ) as raised:
        merged([*dists.values()])
    assert "s3cret" not in str(raised.value)


def test_porters_types_are_kept(environ: dict[str, str]) -> None:
    text = (GOLDEN / "binlog-to-kafka.json").read_text(encoding="utf-8")
    (dist,) = stored(properties_text(parse_dist(text)), environ).values()
    porters = parse_dist(text)
    assert dist == without_empty(porters)
    (dist,) = stored(
        LOAD.replace("B,A", "A")
        + "mapper[3].schema= a, b\nmapper[3].forceMatched=no\nnodeId=1,2\n",
        environ,
    ).values()
    assert (dist["mapper"], dist["nodeId"]) == (
        [{"schema": ["a", "b"], "forceMatched": False}],
        "1,2",
    )


def without_empty(value: Any) -> Any:
    """porter writes nothings as well; here they are the same as no line."""
    if isinstance(value, dict):
        fields = {name: without_empty(field) for name, field in value.items()}
        return {name: field for name, field in fields.items() if field not in ("", None, [], {})}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def test_without_a_key_each_secret_is_refused_with_its_line_and_what_to_do() -> None:
    inspection = inspect_text(LOAD.replace("h/db", "h/db?password=s3cret"), {})
    with pytest.raises(ConfigError) as raised:
        texts_of(inspection.entries, "t.properties", {})
    lines = str(raised.value).splitlines()
    assert [line.partition(": a secret")[0] for line in lines] == [
        "t.properties:6: loader.source.url",
        "t.properties:7: loader.source.password",
    ]
    assert all(
        "secret.keyFile" in line and "${env:NAME}, ${file:/path} or ${file:/path:key}" in line
        for line in lines
    )
    assert "s3cret" not in str(raised.value)


def test_placeholders_and_unknown_keys_stay_as_they_are_written() -> None:
    text = (
        LOAD.replace("s3cret", "${env:NOT_HERE}")
        + "mapper[7].column.A=a\nconsumer.source.colour=x\nconsumer=y\nnodeId=${env:N}\n"
    )
    (dist, _) = stored(text, {}).values()
    assert dist["loader"]["source"]["password"] == "${env:NOT_HERE}"
    assert dist["mapper"] == [{"column": {"A": "a"}}]
    assert dist["nodeId"] == "${env:N}"
    assert dist["consumer.source.colour"] == "x"
    assert "consumer.source.colour=x\n" in properties_text(dist)


FIELDS = st.sampled_from(
    ["taskId", "consumer", "source", "topics", "loader", "mapper", "column", "schema", "x", ""]
)
ANY_DIST = st.dictionaries(
    FIELDS,
    st.recursive(
        st.none() | st.booleans() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=3),
        max_leaves=8,
    ),
)


@given(st.lists(ANY_DIST, min_size=1, max_size=3))
@example([{"consumer": {"source": {"topics": [{}]}}}, {"consumer": {"source": {"topics": 1}}}])
@example([{"consumer": 5}, {"consumer": {"source": 5}}])
def test_whatever_nodes_hold_is_read_or_refused(dists: list[Dist]) -> None:
    try:
        config = merged(dists)
    except ConfigError:
        return
    inspection = inspect_dist(config, {}, Severity.ERROR, lambda _: None)
    assert inspection.task is not None or inspection.diagnostics.of(Severity.ERROR)
    assert {diagnostic.line for diagnostic in inspection.diagnostics.found} <= {0}

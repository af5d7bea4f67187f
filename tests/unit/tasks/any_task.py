"""Task files with anything that they may hold: every key of each route, with values of its kind."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.task import KEYS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORD = st.text(
    st.characters(categories=("L", "N"), include_characters="_- $ü\N{GRINNING FACE}"),
    min_size=1,
    max_size=8,
).filter(str.strip)
NAME = WORD.map(str.strip)
PATH_NAME = NAME.filter(lambda name: name.isprintable() and max(name) < "\ufff0")
FIXED = {
    Route.LOAD: {
        "consumer.consumerName": ["KafkaFetch"],
        "consumer.converter": ["oggJson", "canalRow"],
        "consumer.offset": ["12", "3-4", "earliest", "latest", "2024-05-01T03:04:05.678+08:00"],
        "loader.loaderName": ["JdbcBatch", "JdbcSingle", "JdbcMultiThread"],
    },
    Route.FETCH: {
        "consumer.consumerName": ["CanalFetch"],
        "consumer.converter": ["canalRow"],
        "consumer.offset": [
            "mysql-bin.000064",
            "mysql-bin.000064:4",
            "0-1-100",
            "latest",
            "2024-05-01",
        ],
        "loader.loaderName": ["KAFKA_SYNC"],
    },
}
FIXED[Route.FORWARD] = {**FIXED[Route.LOAD], "loader.loaderName": ["KAFKA_SYNC"]}
REQUIRED = {
    Route.LOAD: {
        "taskId",
        "consumer.consumerName",
        "consumer.source.servers",
        "consumer.source.topics",
        "loader.loaderName",
        "loader.source.url",
    },
    Route.FETCH: {
        "taskId",
        "consumer.consumerName",
        "consumer.source.address",
        "consumer.source.username",
        "loader.loaderName",
        "loader.source.servers",
        "loader.source.topic",
    },
}
REQUIRED[Route.FORWARD] = REQUIRED[Route.LOAD] - {"loader.source.url"} | {
    "loader.source.servers",
    "loader.source.topic",
}
# They name other things, which a test of the form does not have.
WITHOUT = {"consumer.source.sourceName", "loader.source.sourceName"}


def _values(key: Key, route: Route) -> st.SearchStrategy[str]:
    if key.name in FIXED[route]:
        return st.sampled_from(FIXED[route][key.name])
    one = st.just(key.value_type.example.replace(r"\\", "\\"))
    return {
        "text": st.one_of(NAME, TEXT.map("{}x".format))
        if key.name != "loader.source.topic"
        else NAME,
        "secret": NAME.map("s3cret{}".format) | st.just("${env:A}")
        if key.value_type.example.startswith("$")
        else one,
        "true/false": st.sampled_from(["true", "FALSE", "off", "1"]),
        "number": one | st.integers(1, 65535).map(str),
        "list": st.lists(
            NAME, min_size=1, max_size=1 if key.name.endswith("topics") else 3, unique=True
        ).map(",".join),
        "pair": st.tuples(NAME, NAME).map(" , ".join),
        "tables": st.lists(NAME.map("S.{}".format), min_size=1, max_size=3).map(",".join),
        "name": PATH_NAME,
    }.get(key.value_type.name, one)


def _spelled(name: str) -> st.SearchStrategy[str]:
    """A name of the pattern."""
    parts = re.split(r"(\[i\]|<[A-Z]+>|\*)", name)
    numbers = st.sampled_from(["[0]", "[1]", "[12]"])
    return st.tuples(
        *(
            st.just(part) if at % 2 == 0 else numbers if part == "[i]" else WORD
            for at, part in enumerate(parts)
        )
    ).map("".join)


def entries(route: Route) -> st.SearchStrategy[dict[str, str]]:
    """Keys with values. Each is of its kind, but not all go together."""
    keys = [key for key in KEYS.values() if key.name not in WITHOUT]
    required = {key.name: _values(key, route) for key in keys if key.name in REQUIRED[route]}
    pairs = [
        st.tuples(_spelled(key.name), _values(key, route))
        for key in keys
        if key.name not in REQUIRED[route]
    ]
    return st.tuples(
        st.fixed_dictionaries(required), st.lists(st.one_of(pairs), max_size=12).map(dict)
    ).map(lambda both: both[0] | both[1])

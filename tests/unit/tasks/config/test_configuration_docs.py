"""docs/configuration.md and the table of keys say the same, in both directions.

`python -m tests.unit.tasks.config.test_configuration_docs` prints the table that belongs into the
page.
"""

from pathlib import Path

from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.task import KEYS

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"
ROUTES = {
    Route.ANY: "any",
    Route.FETCH: "CanalFetch",
    Route.LOAD: "KafkaFetch to a database",
    Route.FROM_KAFKA: "KafkaFetch",
    Route.TO_KAFKA: "KAFKA_SYNC",
    Route.INTO_KAFKA: "CanalFetch, other packages' sources",
    Route.BUILT_IN: "CanalFetch, KafkaFetch",
    Route.SOURCE: "other packages' sources",
}
HEAD = "| key | type, default | for | meaning | in porter |"


def row(key: Key) -> str:
    default = f", `{key.default}`" if key.default else ""
    meaning = key.meaning
    if key.dead or (key.answer and key.route == Route.ANY):
        meaning = f"{meaning} *{key.dead or key.answer}*"
        where = "-"
    else:
        where = ROUTES[key.route]
    return f"| `{key.name}` | {key.value_type.name}{default} | {where} | {meaning} | {key.porter} |"


def test_the_page_has_exactly_the_rows_of_the_code() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    lines = lines[lines.index(HEAD) :]
    assert [line for line in lines if line.startswith("| `")] == [row(key) for key in KEYS.values()]


if __name__ == "__main__":
    print("\n".join([HEAD, "|---|---|---|---|---|", *(row(key) for key in KEYS.values())]))

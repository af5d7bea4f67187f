"""`cdcbus dlq` before it asks Kafka; what it does with letters is in
tests/integration/consumer/records/dead_letters/test_commands.py."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cdcbus.ops.cli.main import main

EXAMPLES = Path(__file__).parents[5] / "tasks" / "examples"


@pytest.mark.parametrize("command", ["list", "show", "replay", "drop"])
def test_a_fetch_task_that_stops_instead_leaves_no_dead_letters(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_PASSWORD", "x")
    refused = CliRunner().invoke(
        main, ["dlq", command, str(EXAMPLES / "mysql-to-kafka.properties")]
    )
    assert refused.exit_code == 1
    assert "leaves no dead letters: loader.onError is stop" in refused.output


@pytest.mark.parametrize(
    "word",
    ["shop", "shop/0", "shop/0/x", "/0/1", "shop/bin.1:4/0", "shop/bin.1:x/0/1", "shop/0/1/x"],
)
def test_a_record_is_named_as_the_list_does(word: str) -> None:
    refused = CliRunner().invoke(main, ["dlq", "drop", "x.properties", word])
    assert refused.exit_code == 2
    assert "expected TOPIC/PARTITION/OFFSET" in refused.output

"""What doctor says of a provider that people sign in through: a real one, and one that is away."""

from __future__ import annotations

from pathlib import Path

from cdcbus.ops.doctor.provider import check_provider
from cdcbus.tasks.control.bus_settings import BusSettings, read_bus_settings
from cdcbus.tasks.preflight.result import Outcome
from tests.support.servers.oidc import provider_running, settings_text


def settings(folder: Path, text: str) -> BusSettings:
    file = folder / "cdcbus.properties"
    file.write_text(text, encoding="utf-8")
    return read_bus_settings({}, file, {})


def test_where_there_is_none_nothing_is_said(tmp_path: Path) -> None:
    assert list(check_provider(settings(tmp_path, ""))) == []


def test_a_provider_is_well_or_a_warning(tmp_path: Path) -> None:
    with provider_running() as provider:
        bus = settings(tmp_path, settings_text(provider))
        (found,) = check_provider(bus)
        assert (found.outcome, found.subject) == (Outcome.OK, f"provider {provider.address}")
        provider.is_failing = True
        (found,) = check_provider(bus)
        assert found.outcome == Outcome.WARNING
        assert "answers HTTP 502" in found.found

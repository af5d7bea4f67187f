"""Queries to the Prometheus of the settings, and to no other address: redirects are not
followed."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

import orjson

from cdcbus.ops.web.outgoing.bounded import NoRedirects, read_within

ANSWER_SECONDS: Final = 3.0
ANSWER_BYTES: Final = 8 << 20
PART_BYTES: Final = 64 << 10


class NoAnswer(Exception):
    """Prometheus did not answer a query. A sentence, without secrets."""


@dataclass(frozen=True, slots=True)
class Found:
    """A series: its labels, and its values by epoch seconds; NaN and infinity are left out."""

    labels: Mapping[str, str]
    values: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """`url`: without the API's path. `match`: matchers for each selector, such as `env="prod"`.
    `deadline`: of all queries, by time.monotonic. Thread-safe."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    match: str = ""
    deadline: float = math.inf

    def range(self, query: str, start: int, end: int, step_seconds: int) -> list[Found]:
        """A query at each step. Raises NoAnswer."""
        times = {"start": str(start), "end": str(end), "step": str(step_seconds)}
        return self._ask("query_range", {"query": query, **times})

    def now(self, query: str, at: int) -> list[Found]:
        """A query at one time. Raises NoAnswer."""
        return self._ask("query", {"query": query, "time": str(at)})

    def _ask(self, what: str, arguments: Mapping[str, str]) -> list[Found]:
        address = f"{self.url.rstrip('/')}/api/v1/{what}?{urlencode(arguments)}"
        request = Request(address, headers={"Accept": "application/json", **self._credentials()})
        now = time.monotonic()
        deadline = min(now + ANSWER_SECONDS, self.deadline)
        if deadline <= now:
            raise NoAnswer(f"{self._name} takes too long for all that charts need")
        try:
            # No proxy of the environment either.
            opener = build_opener(ProxyHandler({}), NoRedirects)
            with opener.open(request, timeout=deadline - now) as answer:
                body = read_within(answer, deadline, ANSWER_BYTES)
        except HTTPError as error:
            with error:
                raise NoAnswer(f"{self._name} {self._refusal(error)}") from None
        except TimeoutError:
            raise NoAnswer(f"{self._name} has not answered within {ANSWER_SECONDS:g} s") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                reason = f"it has not answered within {ANSWER_SECONDS:g} s"
            raise NoAnswer(f"{self._name} cannot be reached: {reason}") from None
        found = _series(body)
        if found is None:
            raise NoAnswer(f"{self._name} does not answer as Prometheus does; check prometheus.url")
        return found

    @property
    def _name(self) -> str:
        return f"Prometheus at {self.url}"

    def _credentials(self) -> dict[str, str]:
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user:
            login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            return {"Authorization": f"Basic {login}"}
        return {}

    def _refusal(self, error: HTTPError) -> str:
        if error.code in (401, 403):
            return (
                f"refuses the question ({error.code}); check prometheus.user, prometheus.password "
                "or prometheus.token"
            )
        if 300 <= error.code < 400:
            return (
                f"answers with a redirect ({error.code}), which is not followed; set "
                "prometheus.url to where it is"
            )
        reason = ""
        if error.code in (400, 422, 503):  # then it says why, as JSON
            try:
                reason = str(orjson.loads(error.read(PART_BYTES)).get("error", ""))
            except (orjson.JSONDecodeError, AttributeError, OSError, HTTPException):
                reason = ""
        line = " ".join(reason.split())[:200]
        if not line:
            return f"answers {error.code}"
        return f"answers {error.code}: {line}"


def _series(body: bytes) -> list[Found] | None:
    """The series of an answer; None if it is not one of Prometheus. Skips malformed series."""
    try:
        answer = orjson.loads(body)
        if answer["status"] != "success":
            return None
        result = answer["data"]["result"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if not isinstance(result, list):
        return None
    found = []
    for each in result:
        match each:
            case {"metric": dict(labels), "values": list(samples)}:
                pass
            case {"metric": dict(labels), "value": list(sample)}:
                # A query at one time has a single sample.
                samples = [sample]
            case _:
                continue
        names = {str(name): str(value) for name, value in labels.items()}
        found.append(Found(names, _values(samples)))
    return found


def _values(samples: Sequence[Any]) -> dict[float, float]:
    values = {}
    for sample in samples:
        match sample:
            # Values are texts, as JSON has no NaN.
            case [int() | float() as at, str(text)]:
                try:
                    value = float(text)
                except ValueError:
                    continue
                if math.isfinite(value):
                    values[float(at)] = value
    return values

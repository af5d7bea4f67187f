"""HTTP requests to a provider: few at a time, no longer than ANSWER_SECONDS, no redirects."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from threading import BoundedSemaphore
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, build_opener

import orjson

from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.outgoing.bounded import NoRedirects, read_within

ANSWER_SECONDS = 10.0
ANSWER_BYTES = 1 << 20
# Threads of a node that may wait for a provider; the others serve pages.
AT_ONCE = 8


class Turned(Exception):
    """The provider refused. `code`: its error code, such as `invalid_grant`; or empty."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code or f"HTTP {status}")
        self.status, self.code = status, code


class Calls:
    """Sends requests to a provider. Thread-safe."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(AT_ONCE)

    def ask(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        authorization: str = "",
    ) -> Mapping[str, Any]:
        """The JSON object at an address. Raises Turned for an error answer, and Refused (503) where
        the provider is unreachable or answers something else."""
        where = f"the provider at {host_of(url)}"
        # Refused rather than queued, as each request that waits takes a thread from the pages.
        if not self._free.acquire(blocking=False):
            raise Refused(503, f"{where} is slow, and others wait for it already; try again")
        try:
            answer = orjson.loads(_read(url, form, authorization, where))
        except orjson.JSONDecodeError as error:
            raise Refused(503, f"{where} answers with something that is not JSON") from error
        finally:
            self._free.release()
        if not isinstance(answer, dict):
            raise Refused(503, f"{where} answers with JSON of another form")
        return answer


def host_of(url: str) -> str:
    return urlsplit(url).netloc


def _read(url: str, form: Mapping[str, str] | None, authorization: str, where: str) -> bytes:
    headers = {"Accept": "application/json"}
    if authorization:
        headers["Authorization"] = authorization
    body = None
    if form is not None:
        body = urlencode(form).encode()
    deadline = time.monotonic() + ANSWER_SECONDS
    request = Request(url, body, headers)
    try:
        with build_opener(NoRedirects).open(request, timeout=ANSWER_SECONDS) as response:
            return read_within(response, deadline, ANSWER_BYTES)
    except HTTPError as error:
        with error:
            # An answer below 400 is a redirect, which is not followed.
            if error.code >= 500 or error.code < 400:
                raise Refused(503, f"{where} answers HTTP {error.code}; try again later") from error
            raise Turned(error.code, _code(error)) from error
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise Refused(
                503,
                f"{where} shows a certificate that this machine does not trust "
                f"({reason.verify_message}); name the file of its CA in SSL_CERT_FILE where the "
                "node runs",
            ) from error
        failure = "no answer in time" if isinstance(reason, TimeoutError) else "no connection"
        raise Refused(503, f"{where} is away ({failure}); try again later") from error
    except ValueError as error:
        raise Refused(503, f"{where} answers with more than {ANSWER_BYTES} bytes") from error


def _code(error: HTTPError) -> str:
    """The code of an OAuth error; the rest of such an answer can be anything."""
    try:
        answer = orjson.loads(error.read(ANSWER_BYTES))
    except (orjson.JSONDecodeError, OSError, HTTPException):
        return ""
    if not isinstance(answer, dict):
        return ""
    return oauth_code(answer.get("error"))


def oauth_code(code: object) -> str:
    """The code, if it is a word that can be shown; else empty."""
    if isinstance(code, str) and code.replace("_", "").isalnum() and len(code) <= 60:
        return code
    return ""

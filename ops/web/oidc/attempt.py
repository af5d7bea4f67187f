"""The state of a sign-in while the browser is at the provider: a cookie that a key of ours has
signed, so that another node can continue it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any

import orjson

ATTEMPT_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that a browser has begun. `state` comes back with the browser, `nonce` in the
    token; `verifier` proves to the provider who has begun it (PKCE)."""

    state: str
    nonce: str
    verifier: str
    next: str
    redirect: str
    until: int

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def new_attempt(next: str, redirect: str) -> Attempt:
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return Attempt(state, nonce, verifier, next, redirect, int(time.time()) + ATTEMPT_SECONDS)


def sealed(key: str, attempt: Attempt) -> str:
    """The signed text of its cookie."""
    text = packed(asdict(attempt))
    return f"{text}.{_signature(key, text)}"


def opened(key: str, cookie: str) -> Attempt | None:
    """The attempt of a cookie that this key has signed, and that has not ended; else None."""
    text, _, signature = cookie.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(key, text).encode()):
        return None
    attempt = Attempt(**unpacked(text))
    if time.time() >= attempt.until:
        return None
    return attempt


def packed(value: object) -> str:
    """JSON in characters that a cookie can hold, without a full stop."""
    return base64.urlsafe_b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def unpacked(text: str) -> dict[str, Any]:
    """The inverse of `packed`; only for what a key of ours has signed."""
    value: dict[str, Any] = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return value


def _signature(key: str, text: str) -> str:
    return hmac.new(key.encode(), f"cdcbus sign-in {text}".encode(), hashlib.sha256).hexdigest()

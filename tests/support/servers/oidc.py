"""A small OpenID Connect provider over real HTTP: it signs real tokens, checks secret, redirect
address and PKCE, and accepts each code once. Its user is signed in already, and asked by a page
with one button only if a test wants that; a test can make it say something wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from jwt.algorithms import ECAlgorithm

CLIENT, SECRET = "cdcbus", "a secret: with + and %"
Claims = dict[str, Any]


@dataclass
class TestProvider:
    """`claims`: what its tokens say about the user, besides what they must. `altered` changes these
    claims, `signed` the token, `metadata` the description of itself."""

    __test__ = False

    address: str = ""
    secret: str | None = SECRET
    claims: Claims = field(default_factory=lambda: {"preferred_username": "ada", "groups": ["ops"]})
    userinfo: Claims = field(default_factory=dict)
    altered: Callable[[Claims], Claims] = lambda claims: claims
    signed: Callable[[Claims], str] | None = None
    metadata: Claims = field(default_factory=dict)
    logged_out: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    is_failing: bool = False
    is_asking: bool = False
    key: Any = field(default_factory=lambda: generate_private_key(SECP256R1()))
    key_id: str = "1"

    def reset(self) -> None:
        """Resets it to its state at the start, except for its key."""
        vars(self).update(vars(TestProvider(self.address, key=self.key, key_id=self.key_id)))

    def rotate(self) -> None:
        """Signs with another key from now on, and publishes only that one."""
        self.key, self.key_id = generate_private_key(SECP256R1()), str(int(self.key_id) + 1)

    def token(self, claims: Claims) -> str:
        return jwt.encode(claims, self.key, "ES256", {"kid": self.key_id})

    def described(self) -> Claims:
        told = {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/keys",
            "userinfo_endpoint": f"{self.address}/userinfo",
            "end_session_endpoint": f"{self.address}/logout",
        }
        return {key: value for key, value in (told | self.metadata).items() if value is not None}

    def keys(self) -> Claims:
        public = json.loads(ECAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.key_id, "use": "sig"}]}

    def code_for(self, query: dict[str, str]) -> str:
        """Where the browser goes back to, with a code."""
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.address}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def _is_client(self, form: dict[str, str], authorization: str) -> bool:
        if self.secret is None:
            return form.get("client_id") == CLIENT
        pair = f"{quote(CLIENT, '')}:{quote(self.secret, '')}"
        return authorization == f"Basic {base64.b64encode(pair.encode()).decode()}"

    def tokens(self, form: dict[str, str], authorization: str) -> tuple[int, Claims]:
        if not self._is_client(form, authorization):
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["code_challenge_method"] != "S256"
            or asked["redirect_uri"] != form.get("redirect_uri")
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.address,
            "sub": "u-1",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            **self.claims,
        }
        claims = self.altered(claims)
        token = self.signed(claims) if self.signed else self.token(claims)
        return 200, {"id_token": token, "access_token": "an-access-token", "token_type": "Bearer"}


def _first_values(form: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(form).items()}


class _Handler(BaseHTTPRequestHandler):
    provider: TestProvider
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        found = urlsplit(self.path)
        query = _first_values(found.query)
        provider = self.provider
        provider.asked.append(found.path)
        if provider.is_failing:
            self._answer(502, {})
        elif found.path.endswith("/.well-known/openid-configuration"):
            self._answer(200, provider.described())
        elif found.path == "/keys":
            self._answer(200, provider.keys())
        elif found.path == "/authorize" and provider.is_asking:
            self._answer(200, '<form method="post"><button>Let me in</button></form>')
        elif found.path == "/authorize":
            self._answer(303, {}, provider.code_for(query))
        elif found.path == "/userinfo":
            is_known = self.headers["Authorization"] == "Bearer an-access-token"
            self._answer(200 if is_known else 401, {"sub": "u-1", **provider.userinfo})
        elif found.path == "/logout":
            provider.logged_out.append(query)
            self._answer(303, {}, query["post_logout_redirect_uri"])
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = _first_values(body)
        found = urlsplit(self.path)
        self.provider.asked.append(found.path)
        if found.path == "/authorize":
            query = _first_values(found.query)
            self._answer(303, {}, self.provider.code_for(query))
        else:
            self._answer(*self.provider.tokens(form, self.headers["Authorization"] or ""))

    def _answer(self, status: int, body: Claims | str, location: str = "") -> None:
        kind = "text/html"
        if not isinstance(body, str):
            kind = "application/json"
            body = json.dumps(body)
        text = body.encode()
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def provider_running() -> Iterator[TestProvider]:
    """A provider at a port of its own, until the block ends."""
    provider = TestProvider()
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    provider.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def settings_text(provider: TestProvider, more: str = "") -> str:
    """Lines of `cdcbus.properties` for it. The groups are `ops` and `cdc admins`."""
    secret = f"http.oidc.clientSecret={SECRET}\n" if provider.secret is not None else ""
    return (
        f"http.oidc.issuer={provider.address}\nhttp.oidc.clientId={CLIENT}\n{secret}"
        "http.oidc.group.ops.role=operate\n"
        "http.oidc.group.admins.value=cdc admins\nhttp.oidc.group.admins.role=administer\n" + more
    )

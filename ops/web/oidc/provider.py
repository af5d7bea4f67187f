"""An OpenID Connect provider: its metadata, its keys, and the people who sign in through it.
Authorization code flow with PKCE."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import jwt

from cdcbus.ops.web.access.sessions import Session, new_session, read_cookie
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.oidc.attempt import Attempt, packed, unpacked
from cdcbus.ops.web.oidc.calls import Calls, Turned, host_of
from cdcbus.ops.web.oidc.id_token import UnknownKey, claim, claims_of, name_of, values_of
from cdcbus.tasks.control.oidc import OidcSettings
from cdcbus.tasks.control.people import Person

LOG = logging.getLogger(__name__)
KEPT_SECONDS = 600.0
DISCOVERY = "/.well-known/openid-configuration"
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person who came from the provider. `groups`: their names in the settings. `id_token`: a
    hint for the provider when the person logs out."""

    name: str
    groups: tuple[str, ...]
    id_token: str


class Provider:
    """A provider and its kept answers. Thread-safe. Asks nothing before somebody signs in, so that
    an unreachable provider holds up no node."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        # Any node with the same secret accepts a session; without a secret only this one does.
        secret = settings.client_secret or secrets.token_hex(32)
        # Part of the key, so that another issuer or client ends all sessions.
        purpose = f"cdcbus sign-in {settings.issuer} {settings.client_id}"
        self.key = hmac.new(secret.encode(), purpose.encode(), hashlib.sha256).hexdigest()
        self._calls, self._lock = Calls(), Lock()
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, jwt.PyJWKSet] | None = None

    @property
    def host(self) -> str:
        return host_of(self.settings.issuer)

    def check(self) -> None:
        """Raises Refused where nobody could sign in now."""
        self._described()
        self._key_set(is_new=True)

    def address(self, attempt: Attempt) -> str:
        """Where a browser begins to sign in. Raises Refused where the provider is unreachable."""
        fields = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": attempt.redirect,
            "scope": " ".join(self.settings.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return _with(self._described()["authorization_endpoint"], fields)

    def end_address(self, id_token: str, after: str) -> str | None:
        """Where a browser ends its session at the provider; None where there is no such place."""
        try:
            endpoint = self._described().get("end_session_endpoint")
        except Refused:
            return None  # the session here has ended, which is what was asked for
        if not isinstance(endpoint, str) or not _is_safe(endpoint):
            return None
        fields = {"client_id": self.settings.client_id, "post_logout_redirect_uri": after}
        if id_token:
            fields["id_token_hint"] = id_token
        return _with(endpoint, fields)

    def check_issuer(self, said: str | None) -> None:
        """Raises Refused for a browser that comes from another provider (RFC 9207)."""
        promised = self._described().get("authorization_response_iss_parameter_supported") is True
        # A provider that promises to name itself, and does not, is not the one that we sent to.
        if (said is not None or promised) and said != self.settings.issuer:
            raise Refused(401, "this answer is of another issuer than http.oidc.issuer")

    def signed_in(self, code: str, attempt: Attempt) -> SignedIn:
        """The person who has this code. Raises Refused for somebody without access, and for an
        invalid code or token."""
        tokens = self._tokens(code, attempt)
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise Refused(401, "the provider gives no ID token; is openid in http.oidc.scopes?")
        claims = self._completed(self._claims(id_token, attempt.nonce), tokens)
        name = name_of(claims, self.settings.name_claim)
        groups = self.settings.groups_of(values_of(claims, self.settings.groups_claim))
        if not groups:
            raise Refused(
                403,
                f"{name} has none of the groups that may come in here: the claim "
                f"{self.settings.groups_claim} is compared with http.oidc.group.*",
            )
        return SignedIn(name, groups, id_token)

    def cookie(self, signed_in: SignedIn) -> str:
        """A session of ours. It holds the groups, not their rights, which are in the settings."""
        name = packed({"name": signed_in.name, "groups": signed_in.groups})
        return new_session(name, time.time()).cookie(self.key)

    def session_of(self, cookie: str) -> tuple[Session, Person] | None:
        """The session of such a cookie, and its person; None for one that is not ours, or has
        ended."""
        session = read_cookie(self.key, cookie)
        if session is None:
            return None
        fields = unpacked(session.name)
        grants = sorted(
            self.settings.grants_of(frozenset(fields["groups"])),
            key=lambda grant: grant.role,
            reverse=True,
        )
        # The settings have given its groups no rights since.
        if not grants:
            return None
        person = Person(fields["name"], "", grants[0].role, grants[0].tasks, tuple(grants[1:]))
        return Session(fields["name"], session.key), person

    def _described(self) -> Mapping[str, Any]:
        """The provider's metadata."""
        # Not locked while the provider is asked: others must not wait, and asking twice is
        # harmless.
        with self._lock:
            kept = self._metadata
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        issuer = self.settings.issuer
        metadata = self._asked(issuer.rstrip("/") + DISCOVERY)
        # The tokens are checked against the issuer of the settings, so both must agree.
        if metadata.get("issuer") != issuer:
            raise Refused(
                503, f"the provider at {self.host} names another issuer than http.oidc.issuer"
            )
        for endpoint in NEEDED:
            if not isinstance(metadata.get(endpoint), str) or not _is_safe(metadata[endpoint]):
                raise Refused(
                    503, f"the provider at {self.host} publishes no {endpoint} with https://"
                )
        with self._lock:
            self._metadata = (time.monotonic() + KEPT_SECONDS, metadata)
        return metadata

    def _asked(self, url: str) -> Mapping[str, Any]:
        try:
            return self._calls.ask(url)
        except Turned as error:
            raise Refused(
                503,
                f"the provider at {self.host} answers HTTP {error.status} at "
                f"{urlsplit(url).path}; see http.oidc.issuer",
            ) from error

    def _tokens(self, code: str, attempt: Attempt) -> Mapping[str, Any]:
        metadata, settings = self._described(), self.settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect,
            "code_verifier": attempt.verifier,
        }
        authorization = ""
        # The specification's default, where the metadata has none.
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if settings.client_secret is None:
            form["client_id"] = settings.client_id
        elif "client_secret_basic" in methods:
            # OAuth wants both encoded as in a form before they are joined.
            pair = f"{quote(settings.client_id, '')}:{quote(settings.client_secret, '')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        try:
            return self._calls.ask(metadata["token_endpoint"], form, authorization)
        except Turned as error:
            if error.code == "invalid_grant":
                raise Refused(
                    401, "the provider does not take this code (any more); sign in again"
                ) from error
            raise Refused(
                503,
                f"the provider at {self.host} refuses this console ({error}); check "
                "http.oidc.clientId and http.oidc.clientSecret",
            ) from error

    def _claims(self, id_token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of a token. Fetches the keys again where none of the known ones has signed
        it."""
        settings = self.settings
        for is_new in (False, True):
            try:
                return claims_of(
                    id_token, self._key_set(is_new), settings.issuer, settings.client_id, nonce
                )
            except UnknownKey:
                continue
        raise Refused(401, "the provider's ID token is signed with a key that it does not publish")

    def _key_set(self, is_new: bool) -> jwt.PyJWKSet:
        with self._lock:
            kept = self._keys
        if kept is not None and time.monotonic() < kept[0] and not is_new:
            return kept[1]
        try:
            keys = jwt.PyJWKSet.from_dict(dict(self._asked(self._described()["jwks_uri"])))
        except jwt.PyJWTError as error:
            raise Refused(503, f"the provider at {self.host} has no keys to sign with") from error
        with self._lock:
            self._keys = (time.monotonic() + KEPT_SECONDS, keys)
        return keys

    def _completed(self, claims: Mapping[str, Any], tokens: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims, with those that the provider gives only on request, as some do to keep tokens
        small."""
        settings = self.settings
        wanted = (settings.name_claim, settings.groups_claim)
        endpoint, access = self._described().get("userinfo_endpoint"), tokens.get("access_token")
        has_all = all(claim(claims, each) is not None for each in wanted)
        if has_all or not access or not endpoint:
            return claims
        if not isinstance(endpoint, str) or not _is_safe(endpoint):
            return claims
        try:
            more = self._calls.ask(endpoint, authorization=f"Bearer {access}")
        except Turned as error:
            raise Refused(
                503, f"the provider at {self.host} gives no more claims of this person ({error})"
            ) from error
        # Otherwise the groups of one person could be given to another.
        if more.get("sub") != claims["sub"]:
            raise Refused(401, "the provider's claims are of another person than the ID token")
        # The ID token wins, as it is signed.
        return {**more, **claims}


def _is_safe(endpoint: str) -> bool:
    found = urlsplit(endpoint)
    # Secrets are sent there: without TLS only within this machine.
    is_here = found.hostname in ("127.0.0.1", "::1", "localhost")
    return found.scheme == "https" or (found.scheme == "http" and is_here)


def _with(endpoint: str, fields: Mapping[str, str]) -> str:
    separator = "&" if "?" in endpoint else "?"
    return f"{endpoint}{separator}{urlencode(fields)}"

"""Checks of ID tokens, and what their claims say. Pure."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Any

import jwt

from cdcbus.ops.web.answers import Refused

# The provider's clock may differ by this much.
SKEW_SECONDS = 60
# Signed with a key that only the provider has: neither `none`, nor HS256, whose key is a secret
# that others could guess, or a public key that is taken for one.
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
NAME = re.compile(r"[\w.@+'|:/=-]{1,100}")


class UnknownKey(Exception):
    """None of the keys has signed it: perhaps the provider has new ones."""


def claims_of(
    token: str, keys: jwt.PyJWKSet, issuer: str, client_id: str, nonce: str
) -> Mapping[str, Any]:
    """The claims of a token that this provider has signed for this client and this sign-in, and
    that has not ended. Raises UnknownKey, and Refused."""
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise Refused(
                401, "the provider's ID token is not signed by an algorithm with a public key"
            )
        claims = jwt.decode(
            token,
            _key(keys, header.get("kid")),
            algorithms=list(ALGORITHMS),
            audience=client_id,
            issuer=issuer,
            leeway=SKEW_SECONDS,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    # the library raises the others for a key of another kind, or an issuer that is a list
    except (jwt.PyJWTError, TypeError, ValueError) as error:
        raise Refused(401, _sentence(error)) from error
    _check_party(claims, client_id)
    # A token of another sign-in must not be used for this one.
    said = claims.get("nonce")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
        raise Refused(401, "the provider's ID token is not for this sign-in (nonce); sign in again")
    return claims


def _key(keys: jwt.PyJWKSet, key_id: object) -> Any:
    fitting = []
    for key in keys.keys:
        is_for_signing = key.public_key_use in (None, "sig")
        if is_for_signing and key_id in (None, key.key_id):
            fitting.append(key)
    if key_id is None and len(fitting) > 1:
        raise Refused(401, "the provider's ID token does not say which of its keys has signed it")
    if not fitting:
        raise UnknownKey
    # A key need not say its algorithm, and the token's is one of ours.
    return fitting[0].key


def _check_party(claims: Mapping[str, Any], client_id: str) -> None:
    """A token for several clients says which one it was made for."""
    audience = claims["aud"]
    is_shared = isinstance(audience, list) and len(audience) > 1
    # Without `azp` only a token for this client alone is accepted.
    if "azp" not in claims and not is_shared:
        return
    if claims.get("azp") != client_id:
        raise Refused(401, "the provider's ID token is for another client (azp)")


def _sentence(error: Exception) -> str:
    wrong = {
        jwt.ExpiredSignatureError: "has ended; compare the clocks of both machines",
        jwt.ImmatureSignatureError: "is not valid yet; compare the clocks of both machines",
        jwt.InvalidIssuerError: "is of another issuer than http.oidc.issuer",
        jwt.InvalidAudienceError: "is for another client than http.oidc.clientId",
        jwt.InvalidSignatureError: "has a wrong signature",
        jwt.MissingRequiredClaimError: f"lacks a claim: {error}",
    }
    for kind, sentence in wrong.items():
        if isinstance(error, kind):
            return f"the provider's ID token {sentence}"
    return f"the provider's ID token cannot be read ({type(error).__name__})"


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or by its path through others, `realm_access.roles`; None: missing."""
    # As a whole first: some providers use URLs as names, which contain full stops.
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found


def name_of(claims: Mapping[str, Any], name_claim: str) -> str:
    """The name for the audit. Raises Refused for a name that could be somebody else's."""
    name = claim(claims, name_claim)
    if name is None:
        name_claim, name = "sub", claims.get("sub")
    _check_email(claims, name_claim)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused(
            403,
            f"the claim {name_claim} is not a name of 1 to 100 letters, digits and . _ @ + ' | : / "
            "= -; choose another one with http.oidc.nameClaim",
        )
    return name


def _check_email(claims: Mapping[str, Any], used: str) -> None:
    # some providers say it as text
    if used == "email" and str(claims.get("email_verified", True)).lower() != "true":
        raise Refused(403, "the provider has not verified this person's email address")


def values_of(claims: Mapping[str, Any], groups_claim: str) -> frozenset[str]:
    """The groups or roles that a claim names: a list, or a single one. Raises Refused for an
    address that may be somebody else's."""
    _check_email(claims, groups_claim)
    listed = claim(claims, groups_claim)
    if not isinstance(listed, list):
        listed = [listed]
    return frozenset(each for each in listed if isinstance(each, str))

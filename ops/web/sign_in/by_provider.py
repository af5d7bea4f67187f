"""Signing in through an OpenID Connect provider: the browser goes there, and comes back with a
code."""

from __future__ import annotations

import hmac
import logging
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.ops.web.access.origin import is_tls
from cdcbus.ops.web.access.sessions import SESSION_SECONDS
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import own_page
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.oidc.attempt import ATTEMPT_SECONDS, Attempt, new_attempt, opened, sealed
from cdcbus.ops.web.oidc.calls import oauth_code
from cdcbus.ops.web.oidc.provider import Provider, SignedIn
from cdcbus.ops.web.sign_in.login import keep_session, login_form
from cdcbus.ops.web.sign_in.onward import HINT, address_of, onward

LOG = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)
BACK = "/login/oidc/back"
ATTEMPT = "cdcbus_sign_in"
# A cookie has 4 KiB; a longer token is not kept as a hint.
HINT_BYTES = 3500


@router.get("/login/oidc")
def begin(request: Request, next: str = "/") -> Response:
    """Sends the browser to the provider, with a cookie that identifies it when it comes back."""
    bus, provider = bus_of(request), _provider(bus_of(request))
    attempt = new_attempt(own_page(next), address_of(request, provider) + BACK)
    try:
        answer = RedirectResponse(provider.address(attempt), 303)
    except Refused as refused:
        return _refused(bus, attempt, refused)
    # Lax: the browser comes back from another site.
    answer.set_cookie(
        ATTEMPT,
        sealed(provider.key, attempt),
        max_age=ATTEMPT_SECONDS,
        path=BACK,
        httponly=True,
        samesite="lax",
        secure=is_tls(request),
    )
    return answer


@router.get(BACK)
def back(
    request: Request,
    state: str = "",
    code: str = "",
    error: str = "",
    issuer: Annotated[str | None, Query(alias="iss")] = None,
) -> Response:
    """Gives the browser a session of ours, if it is the one that went to the provider."""
    bus, provider = bus_of(request), _provider(bus_of(request))
    attempt = opened(provider.key, request.cookies.get(ATTEMPT, ""))
    try:
        signed_in = _signed_in(provider, attempt, state, code, error, issuer)
    except Refused as refused:
        answer = _refused(bus, attempt, refused)
    else:
        assert attempt is not None
        LOG.info("%s signed in through %s", signed_in.name, provider.host)
        answer = onward(attempt.next, "Continue")
        keep_session(request, answer, provider.cookie(signed_in))
        _keep_hint(request, answer, signed_in)
    # The attempt is over in any case: a code works only once.
    answer.delete_cookie(ATTEMPT, path=BACK, httponly=True, samesite="lax")
    return answer


def _provider(bus: WebBus) -> Provider:
    if bus.provider is None:
        raise Refused(404, "this node has no OpenID Connect provider; see http.oidc.issuer")
    return bus.provider


def _signed_in(
    provider: Provider,
    attempt: Attempt | None,
    state: str,
    code: str,
    error: str,
    issuer: str | None,
) -> SignedIn:
    if attempt is None:
        raise Refused(
            400,
            f"this sign-in was not begun here, or more than {ATTEMPT_SECONDS // 60} minutes ago; "
            "sign in again",
        )
    # Otherwise another site could send this browser in with somebody else's code.
    if not hmac.compare_digest(state.encode(), attempt.state.encode()):
        raise Refused(400, "this answer is for another sign-in (state); sign in again")
    provider.check_issuer(issuer)
    if error:
        error_code = oauth_code(error) or "an error without a code"
        raise Refused(403, f"the provider at {provider.host} does not let you in: {error_code}")
    if not code:
        raise Refused(400, f"the provider at {provider.host} sent no code; sign in again")
    return provider.signed_in(code, attempt)


def _refused(bus: WebBus, attempt: Attempt | None, refused: Refused) -> Response:
    if attempt is not None:  # else anyone could fill the log
        LOG.warning("a sign-in was refused: %s", refused.sentence)
    sentence = refused.sentence[0].upper() + refused.sentence[1:]
    return login_form(bus, attempt.next if attempt else "/", f"{sentence}.", refused.status)


def _keep_hint(request: Request, answer: Response, signed_in: SignedIn) -> None:
    if len(signed_in.id_token) <= HINT_BYTES:
        answer.set_cookie(
            HINT,
            signed_in.id_token,
            max_age=SESSION_SECONDS,
            # Only the log-out needs it.
            path="/logout",
            httponly=True,
            samesite="strict",
            secure=is_tls(request),
        )

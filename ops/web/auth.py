"""Who may do what over HTTP: every request passes `Guard` before anything else sees it.

- Requests from this machine may read everything; from elsewhere everything except /healthz, /login
  and /static needs the token. A request is from this machine if it arrived on loopback, asks for a
  `Host` that is this machine (so that no foreign name that points here becomes our own site), and
  no request has shown another way in yet: `access/origin.py`. With `http.closed`, none is.
- Any other method than GET and HEAD always needs the token; where none is set it is refused.
- Programs send `Authorization: Bearer TOKEN`, and optionally `X-Operator: NAME` for the audit.
  People post name and token at /login and get a cookie that ends after SESSION_SECONDS, when they
  log out, or when the token changes. It is SameSite=Strict, which does not distinguish the ports of
  a host: with a cookie a change is accepted only if the browser's `Origin` is the address that it
  asks. Behind TLS it is Secure.
- `http.person.NAME.*` give people tokens of their own, a role, and tasks: changes of nodes need
  ADMINISTER, any other OPERATE, and a task's pages are for those who have it. The node's own token
  may do everything.
- `http.oidc.*` name a provider that people sign in through (`sign_in/by_provider.py`): they get the
  same cookie, signed with a key of the client's secret, and what their groups may do. Then no
  request is from this machine.
- A client that gives wrong tokens has to wait, longer each time: `access/guesses.py`.
"""

from __future__ import annotations

import hmac
import re
import time
from math import ceil
from urllib.parse import quote, unquote, urlsplit

from fastapi import Request
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdcbus.ops.web.access.origin import client_of
from cdcbus.ops.web.access.sessions import Session, read_cookie
from cdcbus.ops.web.answers import Refused, refusal
from cdcbus.ops.web.bus import WebBus
from cdcbus.tasks.control.people import Person, Role

COOKIE = "cdcbus_session"
# What strangers may send, and what those may who are known: texts of tasks, positions of many
# partitions.
BODY_BYTES, KNOWN_BODY_BYTES = 64 << 10, 1 << 20
FREE = ("/healthz", "/login", "/login/oidc", "/login/oidc/back")
NEW_TASK = "/new-task"
NODE_PATH = re.compile(r"/(?:api/)?nodes/")
TASK_PATH = re.compile(r"/(?:api/|live/)?(?:tasks|letters)/([^/]+)")
NAME = re.compile(r"[\w.@-]{1,40}", re.ASCII)
# No second slash at its beginning: browsers take //host for another site.
OWN_PATH = re.compile(r"/([\w.~%?=&+,:@-][\w./~%?=&+,:@-]*)?", re.ASCII)
NO_TOKEN = (
    "this node has no token, so nothing can be changed here: set http.token in its "
    "cdcbus.properties, or the environment variable "
    "CDCBUS_HTTP_TOKEN, to at least 16 characters, and start the node again"
)
NO_WAY_IN = (
    "other machines may be able to reach this node, and it has no token: set http.token in its "
    "cdcbus.properties, or the environment variable CDCBUS_HTTP_TOKEN, to at least 16 "
    "characters, and restart it"
)
# Added to every answer, also to refusals.
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
]


def operator_of(request: Request) -> str:
    """For handlers: who asks and from where, as the audit names it. Only for changes that `Guard`
    has admitted."""
    name: str = request.state.operator or "somebody"
    return f"{name}@{request.client.host if request.client else '?'} by HTTP"


def is_logged_in(request: Request) -> bool:
    """Whether the request may change something, and see cells of rows; on a task's page, of that
    task."""
    person: Person | None = request.state.person
    if person is None:
        return False
    found = TASK_PATH.match(request.scope["path"])
    if found:
        return person.may(Role.OPERATE, found[1])
    return person.role >= Role.OPERATE


def has_all_tasks(request: Request) -> bool:
    """Whether it may change any task, and see cells of its rows."""
    return _may(request, Role.OPERATE)


def may_administer(request: Request) -> bool:
    """Whether it may change nodes."""
    return _may(request, Role.ADMINISTER)


def _may(request: Request, role: Role) -> bool:
    person: Person | None = request.state.person
    return person is not None and person.may(role)


class Guard:
    """ASGI middleware. Sets `request.state.operator`: a name, or None without a token;
    `request.state.person`: with what rights; and `request.state.is_here`. Refuses bodies that are
    too large."""

    def __init__(self, app: ASGIApp, bus: WebBus) -> None:
        self._app, self._bus, self._entrance = app, bus, bus.entrance()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Anything else, such as a websocket, does not reach the application.
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
                # Pages hold names and cells that no cache must keep; static files hold none.
                if not scope["path"].startswith("/static/"):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            # Before the checks: also a request that is refused can show another way in.
            is_here = self._entrance.is_here(connection)
            name, person = self._operator(connection)
            scope["state"] = {
                **scope.get("state", {}),
                "is_here": is_here,
                "operator": name,
                "person": person,
            }
            self._check(connection, scope["method"])
            # After the checks, so that the bodies of strangers are not read.
            most = BODY_BYTES if person is None else KNOWN_BODY_BYTES
            taken = await _whole_body(connection, receive, most)
        except Refused as refused:
            await _refused(connection, refused)(scope, receive, send_guarded)
            return
        await self._app(scope, taken, send_guarded)

    def _operator(self, connection: HTTPConnection) -> tuple[str | None, Person | None]:
        """Raises Refused for a wrong token."""
        header = connection.headers.get("authorization")
        if header is None:
            found = session_of(self._bus, connection)
            if found is None:
                return None, None
            session, person_of_session = found
            return session.name, person_of_session
        kind, _, given = header.partition(" ")
        person = None
        if kind.lower() == "bearer":
            person = person_of(self._bus, given.strip(), connection)
        if person is None:
            if not self._bus.has_way_in:
                raise Refused(401, NO_TOKEN)
            raise Refused(401, "this is not the token of this node")
        return person.name or self._named_operator(connection), person

    def _named_operator(self, connection: HTTPConnection) -> str:
        """The name that a program with the node's own token gives itself. It cannot be that of a
        person with a token of their own: the audit would blame them."""
        name = connection.headers.get("x-operator", "")
        if not NAME.fullmatch(name) or self._bus.is_person(name):
            return "token"
        return name

    def _check(self, connection: HTTPConnection, method: str) -> None:
        # Not the URL's path: some versions of Starlette build the URL from the Host header too.
        path = connection.scope["path"]
        is_change = method not in ("GET", "HEAD")
        is_free = path in FREE or path.startswith("/static/")
        if connection.scope["state"]["operator"] is None and not is_free:
            self._refuse_nobody(is_change, connection.scope["state"]["is_here"])
        person = connection.scope["state"]["person"]
        # Everyone may log out.
        if person is not None and path not in (*FREE, "/logout"):
            _check_rights(person, path, is_change)
        # Another site can make a browser send our cookie, but not the header of programs.
        is_program = "authorization" in connection.headers
        host = connection.headers.get("host", "")
        if is_change and not is_program and not _is_of(connection.headers.get("origin"), host):
            raise Refused(
                403,
                "this change was not asked for on a page of this node; programs send "
                "Authorization: Bearer TOKEN",
            )

    def _refuse_nobody(self, is_change: bool, is_here: bool) -> None:
        """Refuses a request without a token, except to read on this machine."""
        if is_here and not is_change:
            return
        if self._bus.has_way_in:
            raise Refused(
                401,
                "this needs the token of this node: Authorization: Bearer TOKEN, or log in at "
                "/login",
            )
        if is_change:
            raise Refused(403, NO_TOKEN)
        raise Refused(403, NO_WAY_IN)


def _check_rights(person: Person, path: str, is_change: bool) -> None:
    """Raises Refused for what the person may not do."""
    needed = Role.READ
    if is_change:
        needed = Role.OPERATE
        if NODE_PATH.match(path):
            needed = Role.ADMINISTER
    task_id = None
    if found := TASK_PATH.match(path):
        task_id = found[1]
    if person.may(needed, task_id):
        return
    # Pages of all tasks are open to those who have some. The page of new tasks checks the new id.
    is_open = path == NEW_TASK or not is_change
    if is_open and task_id is None and person.role >= needed:
        return
    if person.role < needed:
        raise Refused(
            403,
            f"{person.name} has the role {person.role.name.lower()}, and this needs "
            f"{needed.name.lower()}; see {person.setting}.role",
        )
    tasks: dict[str, None] = {}
    for grant in person.grants:
        if grant.role >= needed:
            tasks.update(dict.fromkeys(grant.tasks))
    raise Refused(
        403,
        f"this is not for {person.name}, who has the tasks {', '.join(tasks)} only; see "
        f"{person.setting}.tasks",
    )


def person_of(bus: WebBus, given: str, connection: HTTPConnection) -> Person | None:
    """The person whose token it is; None for a wrong one. Compares all in constant time, so that
    the time does not reveal how much of a guess is right. Raises Refused for a client that has to
    wait."""
    everybody = bus.everybody
    if not everybody:
        return None
    client, now = client_of(connection), time.monotonic()
    if wait_seconds := bus.guesses.wait_seconds(client, now):
        raise Refused(
            429,
            f"too many wrong tokens; try again in {ceil(wait_seconds)} s, this one was not checked",
        )
    # All are compared, also after the right one: the time must not depend on which it is.
    given_bytes = given.encode()
    right = [each for each in everybody if hmac.compare_digest(given_bytes, each.token.encode())]
    bus.guesses.note(client, bool(right), now)
    if not right:
        return None
    return right[0]


def session_of(bus: WebBus, connection: HTTPConnection) -> tuple[Session, Person] | None:
    """The session of a valid cookie, and its person; None for one that is not ours, or has
    ended."""
    cookie = connection.cookies.get(COOKIE, "")
    # A cookie is signed with its person's token, so a changed token ends the session.
    for person in bus.everybody:
        session = read_cookie(person.token, cookie)
        if session is not None and session not in bus.ended_sessions:
            return session, person
    if bus.provider is None:
        return None
    found = bus.provider.session_of(cookie)
    if found is None or found[0] in bus.ended_sessions:
        return None
    return found


def own_page(path: str) -> str:
    """The page to continue with: one of ours, whatever was asked for."""
    if OWN_PATH.fullmatch(path):
        return path
    return "/"


def _is_of(origin: str | None, host: str) -> bool:
    # Browsers send an Origin with every change.
    if origin is None:
        return False
    # A proxy may speak TLS for us.
    own = host.lower()
    return origin.lower() in (f"http://{own}", f"https://{own}")


async def _whole_body(connection: HTTPConnection, receive: Receive, most: int) -> Receive:
    """Reads the whole body before anything uses it. Raises Refused for more than `most` bytes."""
    too_large = Refused(413, f"the request has more than {most} bytes")
    # A chunked body has no length, and is counted below.
    length = connection.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most:
        raise too_large
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if len(body) > most:
            raise too_large
        if not message.get("more_body"):
            break
    # The application reads it as if it had just arrived, then hears of a disconnection.
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        if whole:
            return whole.pop()
        return await receive()

    return replayed


def _refused(connection: HTTPConnection, refused: Refused) -> Response:
    path, accept = connection.scope["path"], connection.headers.get("accept", "")
    is_program = "authorization" in connection.headers
    if refused.status == 401 and "text/html" in accept and not is_program:
        before = path
        if connection.scope["method"] != "GET":  # a form: back to its page
            before = urlsplit(connection.headers.get("referer", "/")).path
        return RedirectResponse(f"/login?next={quote(own_page(unquote(before)))}", 303)
    headers = []
    if refused.status == 401:
        headers.append(("www-authenticate", "Bearer"))
    return refusal(path, accept, refused.status, refused.sentence, headers)

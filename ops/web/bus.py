"""What the handlers of HTTP requests share."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Event

from fastapi import Request
from kazoo.client import KazooClient

from cdcbus.ops.web.access.guesses import Guesses
from cdcbus.ops.web.access.origin import Entrance, is_loopback
from cdcbus.ops.web.access.sessions import EndedSessions
from cdcbus.ops.web.oidc.provider import Provider
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.people import Person


@dataclass(frozen=True, slots=True)
class WebBus:
    """The bus as one node's pages see it. `token`: the node's own; `people` have others, or come
    from `provider`; without any of these nothing can be changed here. `host`: the address that it
    listens on. `started`: seconds since 1970. `ending`: set when the node ends; streams end
    then."""

    client: KazooClient
    settings: BusSettings
    node_id: str
    token: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    started: float = field(default_factory=time.time)
    ending: Event = field(default_factory=Event)
    people: tuple[Person, ...] = ()
    ended_sessions: EndedSessions = field(default_factory=EndedSessions)
    guesses: Guesses = field(default_factory=Guesses)
    provider: Provider | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether it listens on this machine's own address only."""
        return is_loopback(self.host)

    @property
    def everybody(self) -> tuple[Person, ...]:
        """Everyone with a token; the node's own gives all rights."""
        if self.token is None:
            return self.people
        return (*self.people, Person("", self.token))

    def is_person(self, name: str) -> bool:
        """Whether it is the name of one with a token of their own."""
        return any(name == each.name for each in self.people)

    @property
    def has_way_in(self) -> bool:
        """Whether anyone could log in."""
        return bool(self.everybody) or self.provider is not None

    def entrance(self) -> Entrance:
        """Distinguishes requests of this machine from others; one for all requests."""
        return Entrance(self.is_loopback, self.settings.http_closed)


def bus_of(request: Request) -> WebBus:
    """For handlers: `bus: Annotated[WebBus, Depends(bus_of)]`."""
    bus: WebBus = request.app.state.bus
    return bus

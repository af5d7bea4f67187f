"""What the contract of loaders needs of a server: see `loader`."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from cdcbus.plugins.contracts import JdbcTarget


class TargetServer(Protocol):
    """A real server with a schema of the test's own, and a hand on it that is not the loader's."""

    @property
    def schema(self) -> str: ...

    @property
    def missing_database(self) -> str:
        """An address that differs in the database only, which does not exist."""
        ...

    @property
    def impatient(self) -> str:
        """The end of an address that makes lock waits short."""
        ...

    @property
    def types(self) -> Mapping[str, tuple[str, str]]:
        """Kind of type -> its name here, and the expression that reads it back as the text that
        was written."""
        ...

    def target(self, **changes: str | int) -> JdbcTarget:
        """How the loader gets there; the schema is its default."""
        ...

    def without_rights_to_create(self) -> JdbcTarget:
        """As a user who may only read and write rows of the schema's tables."""
        ...

    def quoted(self, name: str) -> str: ...

    def execute(self, sql: str) -> None:
        """At once durable; `{schema}` is filled in."""
        ...

    def rows(self, sql: str) -> list[tuple[object, ...]]: ...

    def kill_connections(self) -> int:
        """Ends the loader's connections; how many."""
        ...

    def hold(self, sql: str) -> Iterator[None]:
        """Runs a statement in a transaction that stays open until the generator is closed."""
        ...

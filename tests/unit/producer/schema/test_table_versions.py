"""The schema history's parts that need no server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdcbus.plugins.contracts import SchemaStore
from cdcbus.producer.schema.table_versions import MemorySchemas
from tests.contract.schema_store import SchemaStoreContract


class TestMemorySchemas(SchemaStoreContract):
    @pytest.fixture
    def make(self) -> Callable[[], SchemaStore]:
        entries: dict[str, str] = {}
        return lambda: MemorySchemas(entries)

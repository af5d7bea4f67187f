"""What every Loader promises, on a real server. Mix it into a test class that provides `server`."""

from __future__ import annotations

from tests.contract.loader.cells import CellValues
from tests.contract.loader.failures import Failures
from tests.contract.loader.made_anew import MadeAnew
from tests.contract.loader.offsets import Offsets
from tests.contract.loader.rows import Rows
from tests.contract.loader.tables import Tables
from tests.contract.loader.transactions import Transactions


class LoaderContract(Tables, CellValues, Rows, Transactions, Offsets, MadeAnew, Failures):
    pass

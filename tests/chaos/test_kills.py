"""SIGKILL at random moments under load: source and targets are equal in the end."""

from __future__ import annotations

import os
import random
from pathlib import Path
from signal import SIGKILL

import pytest
from rich.console import Console

from cdcbus.ops.demo.compare import compare_shops
from cdcbus.ops.stack.addresses import Addresses

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

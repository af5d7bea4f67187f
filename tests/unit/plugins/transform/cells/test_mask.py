"""What stands in place of a cell."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.transform.cells.mask import read_mask


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("hash", hashlib.sha256("Ünal".encode()).hexdigest()),
        ("hash:s:1", hashlib.sha256("s:1Ünal".encode()).hexdigest()),
        ("truncate:2", "Ün"),
        ("truncate:0", ""),
        ("truncate:99", "Ünal"),
        ("fixed:***", "***"),
        ("fixed:", ""),
    ],
)
def test_masks(text: str, cell: str) -> None:
    assert read_mask(text).cell("Ünal") == cell
    assert read_mask(text).cell(None) is None


@pytest.mark.parametrize(
    "text",
    ["", "hash:", "truncate", "truncate:", "truncate:-1", "truncate:x", "fixed", "md5", "Hash"],
)
def test_what_is_no_mask_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a mask"):
        read_mask(text)


@given(st.text(), st.text())
def test_different_cells_have_different_hashes(one: str, other: str) -> None:
    mask = read_mask("hash:salt")
    assert (mask.cell(one) == mask.cell(other)) == (one == other)


def test_a_salt_is_not_shown() -> None:
    assert "pepper" not in repr(read_mask("hash:pepper"))

"""Which certificates have become unusable, and which always were."""

from __future__ import annotations

from pathlib import Path

from cdcbus.plugins.files.file_times import are_written_since, note_read, written_at


def test_files_count_only_together(tmp_path: Path) -> None:
    """A certificate can be used with one key and not with another."""
    certificate, key = tmp_path / "a.crt", tmp_path / "a.key"
    for path in (certificate, key):
        path.write_text("as it was")
    alone, both = [str(certificate)], [str(certificate), str(key)]
    note_read(written_at(both))
    assert not are_written_since(written_at(both))
    key.unlink()
    assert are_written_since(written_at(both))
    assert not are_written_since(written_at(alone))

"""Files that are replaced whole: until the new one is complete and on the disk, the old one stays,
also when the disk is full, the process is killed, or the power fails."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

PRIVATE, USUAL = 0o600, 0o666
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}


def write_whole(
    path: Path, data: bytes, *, is_replacing: bool, is_private: bool = False
) -> os.stat_result:
    """Writes the file, and returns what it is. One that it replaces passes on its owner and rights;
    a link stays, and what it leads to is replaced. `is_private`: readable by its owner only.

    Raises FileExistsError where there is one and `is_replacing` is not set, else OSError.
    """
    # A link without its file counts as existing, too.
    place = path.resolve() if is_replacing else path
    before = None
    if is_replacing and place.exists():
        if not place.is_file():
            return _write_into(place, data)
        before = place.stat()
    # In the same folder, as a rename is atomic only within a file system.
    beside = place.with_name(f".{place.name}.new")
    try:
        beside.unlink(missing_ok=True)
        # Narrow from the beginning: after a chmod only, others could have opened it before.
        rights = PRIVATE if is_private or before else USUAL
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights)
        with os.fdopen(number, "wb") as file:
            if before is not None:
                _take_over(file.fileno(), before, is_private=is_private)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            # Before the rename: afterwards it might be somebody else's file.
            written = os.fstat(file.fileno())
        if is_replacing:
            beside.replace(place)
        else:
            _rename_new(beside, place)
    finally:
        with suppress(OSError):
            beside.unlink()
    _synchronise(place.parent)
    return written


def _rename_new(beside: Path, place: Path) -> None:
    try:
        # Unlike a rename it refuses a file that was created meanwhile.
        os.link(beside, place)
    except OSError as error:
        # Some network file systems have none.
        if error.errno not in NO_LINKS:
            raise
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
        beside.replace(place)


def _write_into(place: Path, data: bytes) -> os.stat_result:
    """A terminal or a pipe is written to, never replaced."""
    with place.open("wb") as file:
        file.write(data)
        return os.fstat(file.fileno())


def _take_over(number: int, before: os.stat_result, *, is_private: bool) -> None:
    # Only root may give a file away; a member of the old one's group may give it to the group.
    for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
        with suppress(PermissionError):
            os.fchown(number, owner, group)
    if not is_private:
        os.fchmod(number, S_IMODE(before.st_mode))


def _synchronise(folder: Path) -> None:
    # Without it the rename itself may be lost in a power failure.
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)

from pyarrow import Buffer

INTERFACE: int

def cut(
    texts: tuple[bytes, ...],
    are_texts: bytes,
    stamp_bytes: int,
    end: bytes,
    ends: Buffer,
    offset: int,
    data: Buffer,
    places: Buffer,
    /,
) -> tuple[bytes, list[tuple[bytes, bytes, bytes, bool]]]: ...

"""The servers' character sets as Python codecs."""

from __future__ import annotations

from collections.abc import Callable

from cdcbus.plugins.errors import UnreadableEvent

# Server name -> Python codec, where the names differ.
_CODECS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "big5": "cp950",
    "sjis": "cp932",
    "cp932": "cp932",
    "ujis": "euc-jp",
    "eucjpms": "euc-jp",
    "euckr": "cp949",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "tis620": "iso8859-11",
    "macroman": "mac-roman",
    "macce": "mac-latin2",
}

# Where the server has another character than the codec: the codec's -> the server's. Of ujis and eucjpms the private use area, and of
# eucjpms the NEC and IBM extensions, have no codec and show as undecodable bytes.
_SERVER_CHARACTERS = {
    "big5": str.maketrans("￠￡￥‧¯～⊙⊕∕﹨﹑", "¢£¥•‾∼☉♁／＼､"),
    "cp866": str.maketrans("№¤", "ⁿ²"),
    "gb18030": str.maketrans("\ue7c7\u1e3f", "\u1e3f\ue7c7"),
    "greek": str.maketrans("‘’", "ʽʼ"),
    "hebrew": str.maketrans("¯", "‾"),
    "koi8u": str.maketrans("∙", "•"),
    "sjis": str.maketrans("＼￠￡￢∥－～", "\\¢£¬‖−〜"),
}

# How many bytes a character may take, where it is not one: turns a column's byte length into the length it was declared with.
BYTES_PER_CHARACTER = {
    "utf8mb4": 4,
    "utf8mb3": 3,
    "utf8": 3,
    "gbk": 2,
    "gb2312": 2,
    "gb18030": 4,
    "big5": 2,
    "sjis": 2,
    "cp932": 2,
    "ujis": 3,
    "eucjpms": 3,
    "euckr": 2,
    "ucs2": 2,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
}


def _latin1(raw: bytes) -> str:
    """The servers' latin1 is cp1252 with its five unassigned bytes kept as control characters."""
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(bytes((byte,)).decode("cp1252" if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else "latin-1") for byte in raw)


def decoder(charset: str, column: str) -> Callable[[bytes], str]:
    """Bytes of a column to text; `binary` gives one character per byte. An undecodable byte shows as `\\xNN` and stops nothing.
    Raises UnreadableEvent for a character set without a codec, naming the column."""
    if charset == "binary":
        return lambda raw: raw.decode("latin-1")
    if charset == "latin1":
        return _latin1
    codec = _CODECS.get(charset)
    if codec is None:
        raise UnreadableEvent(f"column {column} has character set {charset or '(unknown)'}, which this release cannot decode")
    characters = _SERVER_CHARACTERS.get(charset)
    if characters is not None:
        return lambda raw: raw.decode(codec, "backslashreplace").translate(characters)
    return lambda raw: raw.decode(codec, "backslashreplace")

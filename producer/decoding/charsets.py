"""Decodes the servers' character sets: with Python's codecs where they agree with the server, with
tables of our own where they do not.

The tables come from the servers: tests/integration/producer/decoding/test_charsets.py compares
every character with them.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import cache
from typing import Any

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

_ASCII = bytes(range(0x80)).decode()
_CONTROLS = bytes(range(0x80, 0xA0)).decode("latin-1")

# Single-byte character sets without a codec: the character of each byte; U+FFFE if it has none.
_NONE = "\ufffe"
_DEC8 = (
    "\xa0¡¢£\ufffe¥\ufffe§¤©ª«\ufffe\ufffe\ufffe\ufffe°±²³\ufffeµ¶·\ufffe¹º»¼½\ufffe¿"
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ\ufffeÑÒÓÔÕÖŒØÙÚÛÜŸ\ufffeß"
    "àáâãäåæçèéêëìíîï\ufffeñòóôõöœøùúûüÿ\ufffe\ufffe"
)
_HP8 = "\xa0ÀÂÈÊËÎÏ´ˋˆ¨˜ÙÛ₤¯Ýý°ÇçÑñ¡¿¤£¥§ƒ¢âêôûáéóúàèòùäëöüÅîØÆåíøæÄìÖÜÉïßÔÁÃãÐðÍÌÓÒÕõŠšÚŸÿÞþ·µ¶¾—¼½ªº«■»±\ufffe"
_ARMSCII8 = "\xa0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
_GEOSTD8 = (
    "€\ufffe‚\ufffe„…†‡\ufffe‰\ufffe‹\ufffe\ufffe\ufffe\ufffe\ufffe‘’“”•–—\ufffe\ufffe\ufffe›\ufffe\ufffe\ufffe\ufffe"
    "\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿"
    "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწ"
    "ჭხჴჯჰჵ\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe№\ufffe\ufffe"
)
_KEYBCS2 = "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"
_TABLES = {
    "armscii8": _ASCII + _CONTROLS + _ARMSCII8,
    "dec8": _ASCII + _CONTROLS + _DEC8,
    "geostd8": _ASCII + _GEOSTD8,
    "hp8": _ASCII + _CONTROLS + _HP8,
    "keybcs2": _ASCII + _KEYBCS2,
    # cp1252, with its five unassigned bytes as control characters
    "latin1": "".join(
        bytes((byte,)).decode("latin-1" if byte in b"\x81\x8d\x8f\x90\x9d" else "cp1252")
        for byte in range(256)
    ),
    "swe7": _ASCII.translate(str.maketrans("@[\\]^`{|}~\x7f", "ÉÄÖÅÜéäöåü\ufffe")),
}

# Where the server's character differs from the codec's: the codec's -> the server's.
_SERVER_CHARACTERS = {
    "big5": str.maketrans("￠￡￥‧¯～⊙⊕∕﹨﹑", "¢£¥•‾∼☉♁／＼､"),
    "cp866": str.maketrans("№¤", "ⁿ²"),
    "eucjpms": str.maketrans("¦〜‖−¢£¬", "￤～∥－￠￡￢"),
    "gb18030": str.maketrans("\ue7c7\u1e3f", "\u1e3f\ue7c7"),
    "greek": str.maketrans("‘’", "ʽʼ"),
    "hebrew": str.maketrans("¯", "‾"),
    "koi8u": str.maketrans("∙", "•"),
    "sjis": str.maketrans("＼￠￡￢∥－～", "\\¢£¬‖−〜"),
    "ujis": str.maketrans("＼", "\\"),
}

# Rows of EUC-JP that the servers know and the codec does not, 94 characters each: NEC's, and IBM's
# two, which do not start at the row's beginning.
_NEC_ROW = (
    "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ\ufffe"
    "㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪\ufffe\ufffe"
)
_IBM_ROWS = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔橫"
    "櫢淸淲瀨凞猪甁皂皞益礰礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨閒隆﨩霻靍靑飯飼館馞髙魲鶴黑"
)


def _rows(first: bytes, characters: str) -> dict[bytes, str]:
    """Returns the characters by their bytes, from the row `first` on."""
    *lead, row = first
    return {
        bytes((*lead, row + i // 94, 0xA1 + i % 94)): character
        for i, character in enumerate(characters)
        if character != _NONE
    }


_USER_DEFINED = _rows(b"\xf5", "".join(map(chr, range(0xE000, 0xE3AC)))) | _rows(
    b"\x8f\xf5", "".join(map(chr, range(0xE3AC, 0xE758)))
)
_BEYOND_THE_CODEC = {
    "ujis": _USER_DEFINED,
    "eucjpms": _USER_DEFINED
    | _rows(b"\xad", _NEC_ROW)
    | _rows(b"\x8f\xf3", _IBM_ROWS.rjust(2 * 94, _NONE)),
}
# The one character that the codec decodes differently from eucjpms: these bytes are replaced with
# those that give eucjpms's character.
_FULLWIDTH_TILDE = b"\x8f\xa2\xb7", b"\xa1\xc1"

# Maximum bytes per character, where not one: converts a column's byte length into its declared
# length.
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


def decoder(charset: str, column: str) -> Callable[[bytes], str]:
    """Returns a function from a column's bytes to text that never fails: a byte that is no
    character becomes `\\xNN`; `binary` gives one character per byte. Raises UnreadableEvent for a
    character set that this release does not know, naming the column."""
    if charset == "binary":
        return lambda raw: raw.decode("latin-1")
    table = _TABLES.get(charset)
    if table is not None:
        return lambda raw: codecs.charmap_decode(raw, "backslashreplace", table)[0]
    codec = _CODECS.get(charset)
    if codec is None:
        raise UnreadableEvent(
            f"column {column} has character set {charset or '(unknown)'}, which this release "
            "cannot decode"
        )
    characters = _SERVER_CHARACTERS.get(charset, {})
    if charset == "eucjpms":
        return lambda raw: (
            raw.replace(*_FULLWIDTH_TILDE).decode(codec, charset).translate(characters)
        )
    errors = charset if charset in _BEYOND_THE_CODEC else "backslashreplace"
    if characters:
        return lambda raw: raw.decode(codec, errors).translate(characters)
    return lambda raw: raw.decode(codec, errors)


NAMES = {*_CODECS, *_TABLES, "binary"}
_NO_SIGNS = {"swe7", "ucs2", "utf16", "utf16le", "utf32"}  # their bytes below 0x80 are not ASCII
# Two bytes that the server decodes to a backslash, which escapes nothing, as it is not the byte
# 0x5C.
_OTHER_BACKSLASH = {"sjis": b"\x81\x5f", "ujis": b"\xa1\xc0"}


# what the codec of cp932 returns for bytes that are no character
_NO_CHARACTERS = set("\uf8f0\uf8f1\uf8f2\uf8f3")


def sql_text(charset: str, raw: bytes) -> str | None:
    """The text of a statement that a client sent in a character set; None if not every character
    is certain. ASCII is the same in all client character sets except `swe7`."""
    if charset in _NO_SIGNS:
        return None
    if raw.isascii():
        return raw.decode()
    if charset not in NAMES or charset == "binary" or _OTHER_BACKSLASH.get(charset, b"\0") in raw:
        return None
    text = decoder(charset, "")(raw)
    # Only text that encodes to the same bytes is certain: a byte that is no character was decoded
    # to an escape, and a backslash that is a character's second byte has disappeared.
    if encoded(charset, text) != raw or _NO_CHARACTERS & set(text):
        return None
    return text


def encoded(charset: str, text: str) -> bytes | None:
    """Encodes text in a character set; None if the set lacks a character of it, as far as is
    known."""
    if text.isascii() and charset not in _NO_SIGNS:
        return text.encode()
    # These hold the first 65,536 characters only.
    if charset in ("utf8", "utf8mb3", "ucs2") and max(text, default="") > "\uffff":
        return None
    try:
        if charset in _TABLES:
            return codecs.charmap_encode(text, "strict", _inverse_table(charset))[0]
        if charset not in _CODECS:
            return None
        raw = text.translate(_codecs_characters(charset)).encode(_CODECS[charset])
    except UnicodeEncodeError:
        return None
    # Some characters have bytes of which the server makes another one.
    if decoder(charset, "")(raw) != text:
        return None
    return raw


@cache
def _inverse_table(charset: str) -> Any:
    return codecs.charmap_build(_TABLES[charset])


@cache
def _codecs_characters(charset: str) -> dict[int, int]:
    """The codec's character for each of the server's that differs from it."""
    differing = _SERVER_CHARACTERS.get(charset, {})
    return {own: other for other, own in differing.items() if own >= 0x80}


def stored(charset: str, text: str) -> str | None:
    """Text as a server stores it after conversion to a character set: `?` for each character that
    is not in the set. None if that is not known of every character;
    tests/integration/producer/decoding/test_charsets.py checks each with the servers."""
    if text.isascii() and charset != "swe7":
        return text
    if charset not in NAMES or charset == "binary":
        return None
    if narrow := _HELD.get(charset):
        try:
            text.encode(narrow)
        except UnicodeEncodeError:
            return None
        if encoded(charset, text) is None or _NOT_HELD & set(text):
            return None
        return text
    return "".join(
        character if encoded(charset, character) is not None else "?" for character in text
    )


_NOT_HELD = set("ˍ╴￣")  # missing in the servers' big5
# Character sets that differ from their codec: a codec whose characters they certainly have.
_HELD = {
    "big5": "big5",
    "cp1256": "iso8859-6",
    "cp932": "shift_jis",
    "eucjpms": "euc-jp",
    "greek": "cp737",
    "sjis": "shift_jis",
    "tis620": "tis-620",
    "ujis": "euc-jp",
}


def _beyond(characters: dict[bytes, str]) -> Callable[[UnicodeError], tuple[str, int]]:
    """Returns an error handler for bytes that the codec cannot decode."""

    def handle(error: UnicodeError) -> tuple[str, int]:
        if isinstance(error, UnicodeDecodeError):
            for end in (error.start + 2, error.start + 3):
                if character := characters.get(error.object[error.start : end]):
                    return character, end
        text, at = codecs.backslashreplace_errors(error)
        return str(text), at

    return handle


for _charset, _characters in _BEYOND_THE_CODEC.items():
    codecs.register_error(_charset, _beyond(_characters))

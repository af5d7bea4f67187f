"""Encrypted secrets for ZooKeeper: Fernet tokens, and the key that makes and opens them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

KEY_FILE = "secret.keyFile"
# The environment variable of that setting.
KEY_FILE_VARIABLE = "CDCBUS_SECRET_KEYFILE"
EXPECTED_KEY = "32 random bytes in base64; example: openssl rand -base64 32 > FILE"


def encrypt(text: str, environ: Mapping[str, str]) -> str:
    """The token of a text, made with the key in the file that $CDCBUS_SECRET_KEYFILE names. Raises
    ValueError with a sentence."""
    return _cipher(environ).encrypt(text.encode()).decode()


def decrypt(token: str, environ: Mapping[str, str]) -> str:
    """The text of a token. Raises ValueError with a sentence that holds neither of them."""
    from cryptography.fernet import InvalidToken

    try:
        return _cipher(environ).decrypt(token.encode()).decode()
    except InvalidToken as error:
        place = environ[KEY_FILE_VARIABLE]
        raise ValueError(
            f"the encrypted value cannot be decrypted with the key in {place!r}; expected the key "
            "that it was made with"
        ) from error


def _cipher(environ: Mapping[str, str]) -> Fernet:
    # Loads OpenSSL, which most commands do not need.
    from cryptography.fernet import Fernet

    path = environ.get(KEY_FILE_VARIABLE)
    if not path:
        raise ValueError(
            f"an encrypted value needs its key; expected {KEY_FILE} in cdcbus.properties, or "
            f"${KEY_FILE_VARIABLE}"
        )
    try:
        # Fernet takes URL-safe base64 only, and openssl writes the standard alphabet.
        return Fernet(Path(path).read_bytes().strip().replace(b"+", b"-").replace(b"/", b"_"))
    except OSError as error:
        raise ValueError(
            f"key file {path!r} cannot be read: {error.strerror}; expected a file that the task's "
            "user can read"
        ) from error
    except ValueError:
        # Without the cause, which may quote the file.
        raise ValueError(f"key file {path!r} holds no key; expected {EXPECTED_KEY}") from None

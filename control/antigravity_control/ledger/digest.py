"""The digest that stands for a call's arguments.

Owns: the canonical form of arguments, the key, the keyed digest, and the text of arguments where it is wanted.

Arguments are short and guessable (`git status`, a path, yes or no), so a plain hash of them is as good as the text to
whoever can hash a list of guesses. The digest is therefore HMAC-SHA-256 with a random key of the ledger, which lies
beside it (``digest.key``, 0600) and is in no row and no export: equal arguments can be told from different ones within
one ledger, and who holds the folder can check a guess; who only gets rows cannot. Without the key the chain still
verifies. Never: writes an argument unless a redactor was given, and then only what it returned, cut.
"""

import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .errors import LedgerError, from_system
from .folder import OPEN_FLAGS
from .record import clean

#: Takes secrets out of a text.
Redactor = Callable[[str], str]

KEY_FILE: Final = "digest.key"
_KEY_BYTES: Final = 32
_SCHEME: Final = "hmac-sha256"
_DOMAIN: Final = b"antigravity-acp ledger arguments 1\n"
#: Characters of arguments that are kept, and that a redactor gets; longer ones are named by their length only, since
#: a secret that is cut in two is no longer recognised.
_MOST_KEPT: Final = 2048
_MOST_REDACTED: Final = 65_536


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=lambda odd: type(odd).__name__).encode


def canonical(arguments: Mapping[str, Any]) -> str:
    """Arguments as one text: JSON in ASCII, keys sorted, no spaces. What is not JSON counts by its type alone."""
    try:
        return _encode(arguments)
    except (TypeError, ValueError, RecursionError):
        # Keys of several types, cycles, or too deep: no JSON of any host, but the row must be written all the same.
        return f"unreadable {type(arguments).__name__} of {len(arguments)}"


class Digests:
    """Digests of one ledger.

    :raises LedgerError: ``damaged`` when the key is not one, ``unwritable`` and others when it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._key = _load(folder / KEY_FILE)

    def of(self, text: str) -> str:
        """``hmac-sha256:`` and 64 hexadecimal digits."""
        return f"{_SCHEME}:{hmac.digest(self._key, _DOMAIN + text.encode(), 'sha256').hex()}"


def shown(text: str, redact: Redactor) -> str:
    """What may be kept of canonical arguments."""
    if len(text) > _MOST_REDACTED:
        return f"[{len(text)} characters]"
    try:
        return clean(redact(text), _MOST_KEPT)
    except Exception:  # noqa: BLE001 - a redactor that fails must neither show a secret nor keep a row from being written
        return "[not redacted]"


def _load(path: Path) -> bytes:
    try:
        if not path.exists():
            _make(path)
        descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS)
        try:
            key = os.read(descriptor, _KEY_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise from_system(error, path) from None
    if len(key) != _KEY_BYTES:
        raise LedgerError(
            "damaged", path, "the key of its digests is damaged; remove that file to begin with a new one"
        )
    return key


def _make(path: Path) -> None:
    # Whole or not at all, and the first of several processes wins: written beside and linked.
    beside = path.with_name(f".{KEY_FILE}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
    descriptor = os.open(beside, flags, 0o600)
    try:
        try:
            os.write(descriptor, secrets.token_bytes(_KEY_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        os.unlink(beside)

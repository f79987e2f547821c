"""The bytes of a row, and what ties it to the one before.

Owns: the version, the canonical form and the hash. A row's *body* is one JSON object in ASCII, keys sorted, no spaces,
that holds its own number and the hash of the row before it; its *hash* is SHA-256 over a fixed prefix and the body:

    hash(n) = SHA-256("antigravity-acp ledger row 1" LF body(n)),  body(n)["prev"] = hash(n - 1) in hex

The prefix keeps a hash of this chain from being one of anything else, and another version from being this one. Since
the body is kept as it was hashed, nobody has to agree about JSON to check it: bytes are enough. The first row's
``prev`` is :data:`GENESIS`.

Rows are numbered through all files. The kinds: ``file`` opens a file and ``end`` closes it, ``decision`` and
``outcome`` are what it is for, ``notice`` says that a writer found rows missing that the anchor knew.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

VERSION: Final = 1
GENESIS: Final = "0" * 64
_DOMAIN: Final = f"antigravity-acp ledger row {VERSION}\n".encode()

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def body_of(seq: int, prev: str, kind: str, time: str, fields: Mapping[str, Any]) -> str:
    """The canonical body of a row.

    :param seq: its number, from 1. :param prev: the hash of the row before it, in hex.
    :param time: RFC 3339, UTC, microseconds. :param fields: must not use the names of the other parameters.
    """
    return _encode({**fields, "v": VERSION, "seq": seq, "prev": prev, "kind": kind, "time": time})


def hash_of(body: str) -> bytes:
    """The 32 bytes that the next row refers to."""
    return sha256(_DOMAIN + body.encode("utf-8", "surrogatepass")).digest()


def parse(body: object) -> dict[str, Any] | None:
    """A body's object; ``None`` for anything that this chain did not write."""
    if not isinstance(body, str):
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("prev"), str):
        return None
    # `True` is an `int`.
    return found if type(found.get("seq")) is int and isinstance(found.get("kind"), str) else None

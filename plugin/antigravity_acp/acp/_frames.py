"""Frames: one line of an agent's stdout to a JSON object, and a message of ours to a line.

Owns: the decoders and the repair of text that is not quite UTF-8. Pure functions, no state. A line is first read as
the one kind of frame that comes in thousands (a text chunk); what does not fit is read in general.
"""

import json
from typing import Any, Final, TypeAlias

import msgspec

from ..contract.surrogates import mended
from .updates import AgentText, AgentThought


class _Message(msgspec.Struct, gc=False, tag_field="sessionUpdate", tag="agent_message_chunk"):
    content: AgentText


class _Thought(msgspec.Struct, gc=False, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    content: AgentThought


class _ChunkParams(msgspec.Struct, gc=False, rename="camel"):
    session_id: str
    update: _Message | _Thought


class ChunkFrame(msgspec.Struct, gc=False, tag_field="method", tag="session/update"):
    """A ``session/update`` notification with more text. ``id`` is there to tell a request from a notification."""

    params: _ChunkParams
    id: object = msgspec.UNSET


#: What every text chunk has in its line; text that happens to hold it costs one failed attempt, nothing else.
CHUNK_MARK: Final = b'_chunk"'
#: Raised by the decoders below for a line that is not what they read.
DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)

decode_chunk = msgspec.json.Decoder(ChunkFrame).decode
_decode_any = msgspec.json.Decoder().decode

Json: TypeAlias = dict[str, Any]


def decode_object(line: bytes) -> tuple[Json | None, bool]:
    """A line as JSON object, and whether it had to be repaired; ``None`` for anything that is not an object.

    Repaired are bytes that are not UTF-8 and lone surrogates (both become U+FFFD), a byte order mark, and the numbers
    NaN and Infinity (``null``), which some JSON writers let through.
    """
    repaired = False
    try:
        value = _decode_any(line)
    except DECODE_ERRORS:
        repaired = True
        try:
            value = mended(json.loads(line.decode("utf-8", "replace").lstrip("\ufeff"), parse_constant=lambda _: None))
        except (ValueError, RecursionError):
            return None, False
    return (value, repaired) if isinstance(value, dict) else (None, False)


def encode_frame(message: Json) -> bytes:
    """A message as one line. Lone surrogates, which hosts may hold, become ``?``."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"

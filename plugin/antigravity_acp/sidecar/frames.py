"""Frames: a line to an object, an object to a line, and the schema that both sides share.

Owns: the reading and writing of single frames, their validation against ``frames.json`` and the errors of JSON-RPC.
Never: puts a value of a frame into an error; a message names the field and what was expected.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from antigravity_acp.contract import BlockEnd, LlmError, StreamChunk
from antigravity_acp.contract.surrogates import mended

#: The version of the protocol; both sides check it in ``initialize``.
PROTOCOL: Final = 1

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
#: Everything that is not about the form of a request; ``data.code`` says what.
FAILED: Final = -32000

Json: TypeAlias = dict[str, Any]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class RpcError(Exception):
    """The error that a request is answered with.

    :param number: JSON-RPC's number. :param code: the stable word in ``data.code``. :param data: what else it holds.
    """

    def __init__(self, number: int, message: str, code: str, **data: int | None) -> None:
        super().__init__(message)
        self.number = number
        self.message = message
        self.data: Json = {"code": code, **{key: item for key, item in data.items() if item is not None}}

    @classmethod
    def of(cls, error: LlmError) -> "RpcError":
        """What an error of the adapter becomes."""
        number = INVALID_PARAMS if error.code == "INVALID_REQUEST" else FAILED
        return cls(number, error.message, error.code, retryAfterMs=error.retry_after_ms, status=error.status)


def decode(line: bytes) -> Json:
    """A line as object.

    Lone halves of surrogate pairs, which JavaScript's strings may hold and write, become U+FFFD.

    :raises RpcError: when it is no JSON, or JSON that is no object.
    """
    try:
        value = _decode(line)
    except _DECODE_ERRORS:
        try:
            value = mended(json.loads(line.decode("utf-8"), parse_constant=_refuse))
        except (ValueError, RecursionError):
            raise RpcError(PARSE_ERROR, "A line is not JSON in UTF-8.", "SIDECAR_PROTOCOL") from None
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "A line is JSON, but not one object.", "SIDECAR_PROTOCOL")
    return value


def encode(frame: Json) -> bytes:
    """A frame as one line. Lone halves of surrogate pairs become ``?``."""
    try:
        return _encode(frame) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def encode_chunk(chunk: StreamChunk) -> bytes:
    """A chunk as JSON, to be put into a frame by :func:`chunks_frame`."""
    if isinstance(chunk, BlockEnd):
        return encode(chunk.to_wire())[:-1]
    try:
        # What `to_wire` gives, without the objects in between.
        return _encode(chunk)
    except UnicodeEncodeError:
        return encode(chunk.to_wire())[:-1]


def chunks_frame(stream: str, chunks: list[bytes]) -> bytes:
    """Chunks of one stream as one ``stream/chunk`` frame."""
    head = b'{"jsonrpc":"2.0","method":"stream/chunk","params":{"stream":%b,"chunks":[' % _encode(stream)
    return head + b",".join(chunks) + b"]}}\n"


def answer(key: str | int, result: Json) -> bytes:
    """The frame that answers a request."""
    return encode({"jsonrpc": "2.0", "id": key, "result": result})


def refusal(key: str | int | None, error: RpcError) -> bytes:
    """The frame that answers a request with an error."""
    body = {"code": error.number, "message": error.message, "data": error.data}
    return encode({"jsonrpc": "2.0", "id": key, "error": body})


def notification(method: str, params: Json) -> bytes:
    """A notification frame."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


@cache
def schema() -> Json:
    """The schema of every frame, ``frames.json``."""
    # Not `importlib.resources`: it loads more than all the rest before the first answer.
    found: Json = json.loads((Path(__file__).parent / "frames.json").read_text(encoding="utf-8"))
    return found


def check_params(method: str, params: object) -> Json:
    """The parameters of a method that is known, valid.

    :raises RpcError: names the first field that is wrong and what was expected.
    """
    import fastjsonschema

    try:
        _checker(method)(params)
    except fastjsonschema.JsonSchemaValueException as error:
        raise RpcError(INVALID_PARAMS, _explain(error), "INVALID_REQUEST") from None
    except RecursionError:
        raise RpcError(INVALID_PARAMS, "params are nested too deeply.", "INVALID_REQUEST") from None
    assert isinstance(params, dict)  # noqa: S101 - every schema of parameters asks for an object
    return params


@cache
def _checker(method: str) -> Callable[[object], object]:
    import fastjsonschema

    where = f"#/definitions/{method.replace('/', '.')}.params"
    found: Callable[[object], object] = fastjsonschema.compile(
        {"$ref": where, "definitions": schema()["definitions"]}, use_default=False
    )
    return found


def _explain(error: Any) -> str:
    # The path begins with the name that the library gives to the whole; indexes are numbers in it.
    field = "params" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in error.path[1:])
    expected = error.rule_definition
    if error.rule == "required":
        missing = next((name for name in expected if name not in error.value), expected[0])
        return f"{field}.{missing} is missing."
    if error.rule == "type":
        return f"{field} must be {' or '.join(expected) if isinstance(expected, list) else expected}."
    if error.rule == "enum":
        return f"{field} must be one of {', '.join(expected)}."
    if error.rule in ("minimum", "minLength", "minItems", "maxLength"):
        return f"{field} does not meet `{error.rule}`, which is {expected}."
    return f"{field} does not have the shape that frames.json asks for."


def _refuse(constant: str) -> None:
    raise ValueError(constant)

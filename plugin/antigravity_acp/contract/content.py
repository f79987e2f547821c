"""Content blocks: what messages are made of.

Owns: the blocks of the host's vocabulary (DeepSeek Harness 0.2.1, ``ContentBlockMap``) and their JSON shapes.
The host's union is open: a kind that is not known here is kept as :class:`OpaqueBlock`, so that nothing is lost
between reading and writing, and the adapter decides whether it can be projected.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from .errors import LlmError


class TextBlock(msgspec.Struct, frozen=True, tag="text"):
    """Text that the end user sees."""

    text: str


class ReasoningBlock(msgspec.Struct, frozen=True, tag="reasoning"):
    """A thought of the model, apart from its visible text."""

    text: str


class ImageAttachment(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An image of the host.

    :param attachment_id: the host's id of the bytes.
    :param media_type: MIME type, e.g. ``image/png``.
    :param bytes: length in bytes.
    :param data: the bytes themselves in base64, when the host projects them into the request. The original host keeps
        bytes apart from messages; an adapter beside it can only pass an image whose data came along.
    """

    attachment_id: str = ""
    media_type: str = ""
    bytes: int = 0
    width: int = 0
    height: int = 0
    name: str | None = None
    data: str | None = None


class ImageBlock(msgspec.Struct, frozen=True, tag="image", omit_defaults=True):
    """An image in user or assistant content."""

    attachment: ImageAttachment
    offloaded: bool = False


class ToolCallBlock(msgspec.Struct, frozen=True, tag="tool-call"):
    """A tool call that the model asked for.

    :param id: correlates the call with its result.
    :param name: the host's own name of the tool.
    :param arguments: the argument object as raw JSON text.
    """

    id: str
    name: str
    arguments: str


class OpaqueBlock(msgspec.Struct, frozen=True):
    """A block of a kind that this version does not know, kept as it came."""

    raw: dict[str, Any]

    @property
    def kind(self) -> str:
        """The block's ``type``."""
        return str(self.raw.get("type", ""))


_QUOTED = re.compile(r"Invalid (?:enum )?value (?:.*(?= - at )|.*)", re.DOTALL)

KnownBlock: TypeAlias = TextBlock | ReasoningBlock | ImageBlock | ToolCallBlock
ContentBlock: TypeAlias = KnownBlock | OpaqueBlock

_KNOWN = frozenset({"text", "reasoning", "image", "tool-call"})


def block_from_wire(value: object, where: str) -> ContentBlock:
    """Read one block from the host's JSON.

    :param where: path of the block in the request, for the error message.
    :raises LlmError: ``INVALID_REQUEST``; the message names the place, never the content.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise LlmError("INVALID_REQUEST", f"{where} is not a content block; expected an object with a string `type`.")
    if value["type"] not in _KNOWN:
        return OpaqueBlock(dict(value))
    try:
        known: KnownBlock = msgspec.convert(value, KnownBlock)
    except msgspec.ValidationError as error:
        raise invalid(where, error) from None
    return known


def block_to_wire(block: ContentBlock) -> dict[str, Any]:
    """Write one block as the host's JSON."""
    if isinstance(block, OpaqueBlock):
        return dict(block.raw)
    wire: dict[str, Any] = msgspec.to_builtins(block)
    return wire


def invalid(where: str, error: msgspec.ValidationError) -> LlmError:
    """The typed form of a shape error: place and expectation, never a value."""
    # msgspec quotes the value where a choice is not among those that are allowed; keys are never quoted.
    return LlmError("INVALID_REQUEST", f"{where}: {_QUOTED.sub('Value that is not among the choices', str(error))}")

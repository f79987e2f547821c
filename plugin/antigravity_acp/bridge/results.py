"""From the host's tool results to MCP's.

Owns: the shapes that a real agent takes in. Google's harness shows a model the text and images of a result and nothing
else: no structured content, no links, no audio (measured on 0.1.22). So every result carries text, images go as image
content beside it, and whatever else the host sends is written out as text rather than lost.
Never: refuses a result.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from antigravity_acp.contract import ContentBlock, ImageBlock, ReasoningBlock, TextBlock
from antigravity_acp.contract.content import block_to_wire

#: An MCP ``CallToolResult`` as JSON.
CallResult: TypeAlias = dict[str, Any]


def error_result(text: str) -> CallResult:
    """A result of our own that tells the model what went wrong."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def text_result(text: str) -> CallResult:
    """A result of our own that is no error."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


def tool_result(content: Sequence[ContentBlock], *, is_error: bool) -> CallResult:
    """The host's result as MCP content with at least one text block."""
    blocks = [_block(block) for block in content]
    if not any(block["type"] == "text" and block["text"] for block in blocks):
        images = sum(block["type"] == "image" for block in blocks)
        blocks = [block for block in blocks if block["type"] != "text"]
        blocks.insert(0, _text(_stand_in(images, is_error=is_error)))
    return {"content": blocks, "isError": is_error}


def _stand_in(images: int, *, is_error: bool) -> str:
    if images:
        return "The tool returned an image." if images == 1 else f"The tool returned {images} images."
    return "The tool failed without a message." if is_error else "The tool returned nothing."


def _block(block: ContentBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock | ReasoningBlock):
        return _text(block.text)
    if isinstance(block, ImageBlock):
        image = block.attachment
        if image.data and image.media_type:
            return {"type": "image", "data": image.data, "mimeType": image.media_type}
        return _text(f"[An image ({image.media_type or 'unknown type'}) that the host did not include]")
    return _text(json.dumps(block_to_wire(block), ensure_ascii=False, default=str))


def _text(text: str) -> dict[str, Any]:
    # Half of a surrogate pair cannot be encoded, and would cost the whole result.
    return {"type": "text", "text": text.encode("utf-8", "replace").decode("utf-8")}

"""A prompt's ACP content blocks → what the SDK sends to the model.

Text, resource links and embedded text resources become text; images (png, jpeg, webp, bmp) go as they are. Everything
else is refused before the model is asked: it would be lost in silence.
"""

import base64
import binascii
from typing import Any

from antigravity_engine.errors import invalid_params

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/bmp"})


def prompt_parts(blocks: Any) -> list[tuple[str, Any]]:
    """("text", str) and ("image", (media type, bytes)) in the order of the blocks. Raises `EngineError`."""
    if not isinstance(blocks, list) or not blocks:
        raise invalid_params("`prompt` must be a list of content blocks with at least one entry")
    parts = [_part(index, block) for index, block in enumerate(blocks)]
    if not any(kind == "image" or value.strip() for kind, value in parts):
        raise invalid_params("the prompt is empty")
    return parts


def _part(index: int, block: Any) -> tuple[str, Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return "text", block["text"]
    if kind == "image":
        return "image", _image(index, block.get("mimeType"), block.get("data"))
    if kind == "resource_link" and isinstance(block.get("uri"), str):
        return "text", f"[{block.get('name') or 'resource'}]({block['uri']})"
    if kind == "resource" and isinstance(block.get("resource"), dict):
        resource = block["resource"]
        if isinstance(resource.get("text"), str):
            return "text", f'<resource uri="{resource.get("uri", "")}">\n{resource["text"]}\n</resource>'
        if resource.get("mimeType") in IMAGE_TYPES:
            return "image", _image(index, resource["mimeType"], resource.get("blob"))
    raise invalid_params(
        f"content block {index} cannot be used: text, images, resource links and embedded text or images are supported"
    )


def _image(index: int, media_type: Any, data: Any) -> tuple[str, bytes]:
    if media_type not in IMAGE_TYPES:
        raise invalid_params(f"content block {index}: image types are {', '.join(sorted(IMAGE_TYPES))}")
    try:
        return media_type, base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise invalid_params(f"content block {index}: the image is not valid base64") from None

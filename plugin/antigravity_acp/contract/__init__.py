"""The host's vocabulary, in Python dress: messages, requests, chunks, the adapter and its errors.

The names, fields and order are those of DeepSeek Harness 0.2.1; attributes are ``snake_case``, the wire is the
original ``camelCase``. This room is the ground floor: it imports nothing of ours.
"""

from .adapter import LlmAdapter, ModelContext, ModelInfo, ProviderInfo, ResolvedModelInfo
from .chunks import (
    BlockEnd,
    BlockStart,
    BlockType,
    Failure,
    Finish,
    FinishReason,
    ReasoningDelta,
    StreamChunk,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    Usage,
    chunk_from_wire,
)
from .codes import ERRORS, ErrorRow
from .content import ContentBlock, ImageAttachment, ImageBlock, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from .errors import LlmError
from .messages import Message, Role, tool_result, user
from .notices import Notice, Notify
from .options import GenerateOptions, ToolSchema
from .signal import AbortController, AbortSignal

__all__ = [
    "ERRORS",
    "AbortController",
    "AbortSignal",
    "BlockEnd",
    "BlockStart",
    "BlockType",
    "ContentBlock",
    "ErrorRow",
    "Failure",
    "Finish",
    "FinishReason",
    "GenerateOptions",
    "ImageAttachment",
    "ImageBlock",
    "LlmAdapter",
    "LlmError",
    "Message",
    "ModelContext",
    "ModelInfo",
    "Notice",
    "Notify",
    "OpaqueBlock",
    "ProviderInfo",
    "ReasoningBlock",
    "ReasoningDelta",
    "ResolvedModelInfo",
    "Role",
    "StreamChunk",
    "TextBlock",
    "TextDelta",
    "TokenUsage",
    "ToolCallBlock",
    "ToolCallDelta",
    "ToolSchema",
    "Usage",
    "chunk_from_wire",
    "tool_result",
    "user",
]

"""The typed error of the contract.

Owns: :class:`LlmError`, the one exception that adapters raise on purpose.
Never: carries remote text, stderr, tokens, prompts or tool arguments in its message.
"""

from typing import Any

from .codes import ERRORS


class LlmError(Exception):
    """A failure with a stable code.

    :param code: one of :data:`~antigravity_acp.contract.codes.ERRORS`; what hosts route on.
    :param message: what happened and what to do next; the table's own text when left out.
    :param status: HTTP status, when a provider gave one.
    :param retry_after_ms: milliseconds until a repeat makes sense, when the agent said so.
    """

    def __init__(
        self, code: str, message: str | None = None, *, status: int | None = None, retry_after_ms: int | None = None
    ) -> None:
        row = ERRORS[code]
        self.code = code
        self.message = message or f"{row.happened} {row.remedy}"
        self.status = status
        self.retry_after_ms = retry_after_ms
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.code, self.message, self.status, self.retry_after_ms)

    @property
    def retryable(self) -> bool:
        """Whether the same request may be repeated as it is."""
        return ERRORS[self.code].retryable


def _rebuild(code: str, message: str, status: int | None, retry_after_ms: int | None) -> LlmError:
    return LlmError(code, message, status=status, retry_after_ms=retry_after_ms)

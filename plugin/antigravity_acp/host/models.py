"""Which model answers: the choice of the session, else of the profile, else the plugin's default.

Owns: :class:`ModelChoice`, its one-line form ``provider/model``, and the precedence.
Never: guesses. A saved choice that cannot be read is an error that names where it was saved, not a reason to fall
back to another model.
"""

import msgspec

from antigravity_acp.contract import LlmError


class ModelChoice(msgspec.Struct, frozen=True):
    """A model behind a provider route.

    :param provider: the route, e.g. ``antigravity-acp``.
    :param model: the model's id, e.g. ``server-default``; may contain slashes.
    """

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    @classmethod
    def parse(cls, text: str, *, provider: str | None = None, where: str = "model") -> "ModelChoice":
        """Read ``provider/model``.

        :param provider: the route to take when the text names none; then all of the text is the model's id, unless
            it begins with that very route.
        :param where: who chose, for the error message.
        :raises LlmError: ``INVALID_SETTINGS``; names ``where`` and the form expected.
        """
        head, slash, tail = text.strip().partition("/")
        if provider is not None and (not slash or head != provider):
            head, tail = provider, text.strip()
        if not head or not tail:
            raise LlmError("INVALID_SETTINGS", f"The {where} choice is not valid: expected `provider/model`.")
        return cls(head, tail)


def choose_model(*, session: str | None = None, profile: str | None = None, default: ModelChoice) -> ModelChoice:
    """The model of a chat by the host's precedence: session, then profile, then the plugin's default.

    :param session: what was chosen in this session, ``provider/model``; empty or ``None`` when nothing was.
    :param profile: what the user's profile says, likewise.
    :raises LlmError: ``INVALID_SETTINGS`` when the choice that wins cannot be read.
    """
    for where, text in (("session's model", session), ("profile's model", profile)):
        if text:
            return ModelChoice.parse(text, where=where)
    return default

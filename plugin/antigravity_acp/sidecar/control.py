"""The control for a host in another process: may this call run, and how did it end?

Owns: the governor of the sidecar's settings, and what the host's words for an outcome are on record.
A decision is on record before it is answered. Where that fails a person is asked, and nobody means no.
Never: runs a tool; asks a person; keeps an argument.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final

from antigravity_acp.governing import GovernedCall, Governor, Records
from antigravity_acp.governing.records import Ended
from antigravity_acp.settings import Settings
from antigravity_control import Decision

from .frames import Json

_OUTCOMES: Final[dict[str, Ended]] = {"ok": "ok", "error": "error", "denied": "not_run", "cancelled": "cancelled"}
_UNREADABLE: Final = Decision(
    "deny", "The arguments of this call are no object, so nobody can tell what it does.", "default"
)
_UNRECORDED: Final = "The ledger could not record this call; the sidecar's log says why"


class Control:
    """Decisions by the settings in force, and by the files of rules of this user.

    :param host: the host's name in the ledger. :param settings_files: where the host keeps the settings.
    :raises LlmError: ``INVALID_SETTINGS``; names the rule that is malformed.
    """

    def __init__(self, settings: Settings, host: str = "sidecar", settings_files: Sequence[str] = ()) -> None:
        self._reported: Counter[str] = Counter()
        self._on = settings.control
        self._governor = Governor(settings, records=Records(settings, host=host), settings_files=settings_files)

    def update(self, settings: Settings) -> None:
        """Take over new settings, for the next decision.

        :raises LlmError: ``INVALID_SETTINGS``; nothing is changed then.
        """
        self._governor.update(settings)
        self._on = settings.control

    @property
    def counters(self) -> Mapping[str, int]:
        """What was decided and what was reported, as numbers."""
        decided = {name: count for name, count in self._governor.counters.items() if "outcome" not in name}
        return {**decided, **self._reported}

    def decide(self, call: Json, *, attended: bool) -> Json | Awaitable[Json]:
        """Decide about a call.

        :param call: as in ``control/decide``. :param attended: whether a person can be asked.
        :returns: the result of ``control/decide``, or what is to be awaited for it.
        """
        if not self._on:
            return {"decision": "allow", "reason": "control is off"}
        if self._governor.is_ready and not self._governor.records_calls and _is_readable(call):
            # Nothing to wait for: a task would take longer than the decision.
            return _answer(self._governor.decide(_governed(call), attended=attended))
        return self._decided(call, attended=attended)

    async def _decided(self, call: Json, *, attended: bool) -> Json:
        await self._governor.ready()
        began = time.monotonic()
        asked = _governed(call)
        made = self._governor.decide(asked, attended=attended) if _is_readable(call) else _UNREADABLE
        seconds = time.monotonic() - began
        if not await self._governor.record(asked, made, seconds=seconds, attended=attended) and made.allowed:
            reason = f"{_UNRECORDED}{'' if attended else ', and nobody can be asked here'}."
            return {"decision": "ask" if attended else "deny", "reason": reason}
        return _answer(made)

    async def report(self, call: Json, outcome: str) -> None:
        """Have on record how a call ended."""
        self._reported[f"control_outcome_{outcome}"] += 1
        await self._governor.ended(_governed(call), _OUTCOMES[outcome])

    async def aclose(self) -> None:
        """Close the ledger."""
        await self._governor.aclose()


def _answer(made: Decision) -> Json:
    decision = "ask" if made.asks else made.decision
    return {"decision": decision, "reason": made.reason, **({"rule": made.rule} if made.rule else {})}


def _is_readable(call: Json) -> bool:
    """Whether the arguments are what every tool takes; a tool may make anything of what else the host was given."""
    return isinstance(call.get("arguments"), Mapping | None)


def _governed(call: Json) -> GovernedCall:
    arguments = call.get("arguments")
    return GovernedCall(
        id=call["id"],
        name=call["name"],
        arguments=arguments if isinstance(arguments, Mapping) else {},
        workspace=call.get("cwd") or "",
        session=call.get("sessionId") or "",
    )

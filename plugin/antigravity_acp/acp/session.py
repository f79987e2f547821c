"""One ACP session: its models, its one prompt at a time, and who hears its updates.

Owns: the turn that runs, from sending ``session/prompt`` to its answer; what arrives outside of it is counted and
dropped, so nothing can reach a later turn. Ends with its process.
Never: keeps history; a session is used for one generation and then left.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from ..contract import LlmError, TokenUsage
from ._usage import read_usage
from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, AgentError
from .models import ModelChoice, ModelMenu, read_menu
from .permissions import Cancelled, PermissionAnswer, PermissionRequest, outcome_of, read_request
from .profiles import AgentProfile
from .updates import AgentEvent, Counters, UpdateReader

if TYPE_CHECKING:
    from .connection import AgentConnection

_log = logging.getLogger("antigravity_acp.acp")


class PromptOutcome(msgspec.Struct, frozen=True):
    """How a prompt ended.

    :param stop_reason: the agent's own word; ``""`` when it gave none. ``cancelled`` also stands for an error with
        which an agent answered a prompt after we cancelled it (the official server does).
    :param usage: real counters of the agent, ``None`` when it reports none.
    """

    stop_reason: str
    usage: TokenUsage | None


class _Turn:
    """One running prompt. ``over`` is set by whoever ends it first: the answer, the consumer, or its own failure."""

    def __init__(
        self,
        on_event: Callable[[AgentEvent], Awaitable[None]],
        on_permission: Callable[[PermissionRequest], PermissionAnswer],
    ) -> None:
        self.on_event = on_event
        self.on_permission = on_permission
        self.over = False
        self.cancel_sent = False
        self.error: Exception | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._delivery: anyio.CancelScope | None = None

    async def deliver(self, events: list[AgentEvent]) -> int:
        """Hand events on, one by one. Returns how many the turn still took."""
        taken = 0
        with anyio.CancelScope() as self._delivery:
            try:
                for event in events:
                    await self.on_event(event)
                    taken += 1
            except Exception as error:  # noqa: BLE001 - the consumer's error belongs to prompt(), not to the wire
                self.fail(error)
        self._delivery = None
        return taken

    def fail(self, error: Exception) -> None:
        self.over = True
        self.error = self.error or error
        if not self.failed.done():
            self.failed.set_result(None)

    def detach(self) -> None:
        """Release the wire from a consumer that will not read on."""
        self.over = True
        if self._delivery is not None:
            self._delivery.cancel()


class AgentSession:
    """A session of one agent. Made by :meth:`AgentClient.new_session`; the transport's sink for its updates."""

    def __init__(
        self,
        session_id: str,
        connection: "AgentConnection",
        profile: AgentProfile,
        counters: Counters,
        menu: ModelMenu,
        *,
        request_timeout_ms: int,
        on_idle: Callable[[], None],
    ) -> None:
        self.id = session_id
        self._connection = connection
        self._profile = profile
        self._counters = counters
        self._menu = menu
        self._timeout_ms = request_timeout_ms
        self._on_idle = on_idle
        self._reader = UpdateReader(counters)
        self._turn: _Turn | None = None
        #: Whether a prompt was ever sent; such a session is never used again.
        self.prompted = False

    @property
    def busy(self) -> bool:
        """Whether a prompt runs."""
        return self._turn is not None

    # ---- models -----------------------------------------------------------------------------------------------------
    @property
    def models(self) -> tuple[ModelChoice, ...]:
        """What the agent announces now, in its order; empty when it announces none."""
        return self._menu.choices

    @property
    def current_model(self) -> str | None:
        """The id that is set, ``None`` when the agent does not say."""
        return self._menu.current

    async def select_model(self, model: str) -> None:
        """Set the model and make sure that the agent took it.

        :raises LlmError: ``ACP_INVALID_MODEL`` when it is not announced, refused, or not the one that is set
            afterwards.
        """
        if self._menu.via is None or all(choice.id != model for choice in self.models):
            raise LlmError(
                "ACP_INVALID_MODEL",
                "The agent does not announce this model. `antigravity-acp models` lists those it does; "
                "`server-default` takes the agent's own.",
            )
        if model == self.current_model:
            return
        try:
            if self._menu.via == "config":
                from .connection import config_params

                params = config_params(self.id, "model", model)
                result = await self._connection.request(
                    "session/set_config_option", params, timeout_ms=self._timeout_ms
                )
                self._menu = read_menu(result)
            else:
                params = {"sessionId": self.id, "modelId": model}
                result = await self._connection.request("session/set_model", params, timeout_ms=self._timeout_ms)
                # The answer is empty by its schema; an agent that says more must say the same.
                said = read_menu(result).current or model
                self._menu = msgspec.structs.replace(self._menu, current=said)
        except AgentError as error:
            if error.number in (INVALID_PARAMS, METHOD_NOT_FOUND) and error.code == "ACP_RPC_ERROR":
                raise LlmError(
                    "ACP_INVALID_MODEL",
                    "The agent refused a model that it announces; the account may lack it. Choose another one.",
                ) from None
            raise
        if self.current_model != model:
            raise LlmError(
                "ACP_INVALID_MODEL",
                "The agent accepted the model and then named another one as set. Choose another one.",
            )

    # ---- the prompt -------------------------------------------------------------------------------------------------
    async def prompt(
        self,
        blocks: Sequence[dict[str, Any]],
        *,
        on_event: Callable[[AgentEvent], Awaitable[None]],
        on_permission: Callable[[PermissionRequest], PermissionAnswer],
    ) -> PromptOutcome:
        """Send a prompt and wait for its answer. Not bounded here: the turn's clock belongs to the caller.

        Every update that came before the answer was awaited by ``on_event``, in order, before this returns; one that
        comes after it is dropped. While ``on_event`` waits, the agent's output is not read. Cancelling this coroutine
        detaches the turn; it does not tell the agent, :meth:`cancel` does.

        :param blocks: content blocks in ACP's JSON shape.
        :param on_permission: decides at once; what it raises answers the agent with ``cancelled`` and ends the prompt.
        :raises LlmError: ``ACP_SESSION_BUSY``, ``ACP_DISCONNECTED``, ``ACP_PROTOCOL_ERROR``, ``ACP_QUOTA``, and what
            else an error answer is classified as. What ``on_event`` raises is raised here.
        """
        if self._turn is not None:
            raise LlmError("ACP_SESSION_BUSY", "This agent session already runs a prompt. Open another session.")
        turn = self._turn = _Turn(on_event, on_permission)
        self.prompted = True
        params = {"sessionId": self.id, "prompt": list(blocks)}
        request: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_task(
            self._connection.request("session/prompt", params, timeout_ms=None), name="antigravity-acp.prompt"
        )
        waited: list[asyncio.Future[Any]] = [request, turn.failed]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if turn.error is not None:
                raise turn.error
            result = request.result()
        except AgentError:
            if turn.cancel_sent:
                return PromptOutcome("cancelled", None)
            raise
        finally:
            turn.detach()
            self._turn = None
            self._on_idle()
            await _drop(request)
        stop_reason = result.get("stopReason")
        return PromptOutcome(stop_reason if isinstance(stop_reason, str) else "", read_usage(result.get("usage")))

    async def cancel(self) -> None:
        """Ask the agent to stop the prompt that runs, if one does. Takes no lock and does not wait for the agent."""
        if self._turn is not None and not self._turn.over:
            self._turn.cancel_sent = True
            await self._connection.notify("session/cancel", {"sessionId": self.id})

    # ---- the transport's side ---------------------------------------------------------------------------------------
    def read(self, update: dict[str, Any]) -> AgentEvent | None:
        """One raw update; a change of the models is taken here and is no event."""
        if update.get("sessionUpdate") == "config_option_update":
            menu = read_menu(update)
            if menu.via is not None:
                self._menu = menu
        return self._reader.read(update)

    async def deliver(self, events: list[AgentEvent]) -> None:
        """Events for the turn that runs; without one they are counted and dropped."""
        turn = self._turn
        taken = 0 if turn is None or turn.over else await turn.deliver(events)
        self._counters.late_updates += len(events) - taken

    def turn_over(self) -> None:
        """The answer has arrived."""
        if self._turn is not None:
            self._turn.over = True

    def permission(self, params: dict[str, Any]) -> dict[str, Any]:
        """Answer ``session/request_permission``; ``cancelled`` when no turn runs."""
        turn = self._turn
        answer: PermissionAnswer = Cancelled()
        if turn is not None and not turn.over:
            try:
                answer = turn.on_permission(read_request(self._profile, params, self._reader))
            except Exception as error:  # noqa: BLE001 - the SDK would log it; the turn is who must hear of it
                turn.fail(error)
        return outcome_of(answer)


async def _drop(request: asyncio.Future[dict[str, Any]]) -> None:
    """End the request's task and see its failure, which the SDK settles for every request that is open."""
    if not request.done():
        request.cancel()
        await asyncio.wait({request})
    if not request.cancelled():
        request.exception()

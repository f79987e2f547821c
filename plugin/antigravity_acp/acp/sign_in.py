"""Signing in and out on a person's request, and looking whether an agent is signed in.

Owns: the sign-in while ``authenticate`` runs: the link that the agent prints for a person, and the address that a
person without a browser on this machine pastes back, which goes to the agent's own listener and nowhere else. Ends with
the answer to ``authenticate``; nothing is left behind then, also after a cancellation.
Never: reads, keeps or deletes a credential, that is the agent's part; looks at a link or an address for anything but
where it leads; puts one into an error or a log; asks the agent's listener anything of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ..contract import LlmError
from ._finish import finish
from ._forward import forward
from ._link import MAX_LINE, RefusedAddressError, SignInLink, read_redirect
from ._listening import LinkListener
from .client import AgentClient
from .errors import timed_out
from .permissions import Cancelled
from .updates import AgentEvent

__all__ = [
    "MAX_ADDRESS",
    "AddressForwarded",
    "AddressRefused",
    "LinkFound",
    "SignInNews",
    "Standing",
    "sign_in",
    "sign_out",
    "standing_of",
]

#: Characters of a pasted address that are looked at.
MAX_ADDRESS: Final = MAX_LINE
#: Addresses that one sign-in takes: a person needs a few, and a pipe may hold millions.
MAX_PASTES: Final = 10


class LinkFound(msgspec.Struct, frozen=True):
    """The agent printed a link that signs a person in. For the person alone; a later one replaces it."""

    url: str
    port: int

    def __repr__(self) -> str:
        return f"LinkFound(port={self.port})"


class AddressRefused(msgspec.Struct, frozen=True):
    """A pasted address did not do; why in our own words, and how many more are taken."""

    reason: str
    left: int


class AddressForwarded(msgspec.Struct, frozen=True):
    """A pasted address was taken by the agent's listener. Whether it signs in is still the agent's to say."""


SignInNews: TypeAlias = LinkFound | AddressRefused | AddressForwarded


async def sign_in(
    client: AgentClient,
    *,
    tell: Callable[[SignInNews], None],
    pasted: Callable[[], Awaitable[str | None]] | None = None,
) -> None:
    """Authenticate by the configured method, else the profile's, within ``authTimeoutMs``.

    The agent opens a browser if it can, which nobody else can know, so its link is told always. Success is what the
    agent says; that a session opens afterwards is the proof.

    :param tell: hears the news; what it raises ends the sign-in.
    :param pasted: the next line that a person pasted, ``None`` at the end of the input; asked only once there is a
        link, and cancelled when the sign-in ends.
    :raises LlmError: as :meth:`AgentClient.authenticate`.
    """
    await _Flow(client, tell, pasted).run()


class _Flow:
    """One sign-in."""

    def __init__(
        self,
        client: AgentClient,
        tell: Callable[[SignInNews], None],
        pasted: Callable[[], Awaitable[str | None]] | None,
    ) -> None:
        self._client = client
        self._tell = tell
        self._pasted = pasted
        self._links: asyncio.Queue[SignInLink] = asyncio.Queue()
        self._listener = LinkListener(self._links.put_nowait)
        self._link: asyncio.Future[SignInLink] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        with self._client.hearing_stderr(self._listener.hear):
            answer = loop.create_task(self._client.authenticate(), name="antigravity-acp.authenticate")
            tasks = {answer, loop.create_task(self._show_links()), loop.create_task(self._take_addresses())}
            try:
                pending = tasks
                while not answer.done():
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    for task in done - {answer}:
                        task.result()
                answer.result()
            finally:
                self._listener.close()
                await finish(_end(tasks))

    # ---- the link ---------------------------------------------------------------------------------------------------
    async def _show_links(self) -> None:
        while True:
            link = await self._links.get()
            if self._link.done():
                self._link = asyncio.get_running_loop().create_future()
            self._link.set_result(link)
            self._tell(LinkFound(link.url, link.port))

    # ---- the address ------------------------------------------------------------------------------------------------
    async def _take_addresses(self) -> None:
        """Until one was taken, the input ends or too many were wrong; the sign-in itself goes on."""
        if self._pasted is None:
            return
        await self._link
        for left in reversed(range(MAX_PASTES)):
            text = await self._pasted()
            if text is None:
                return
            try:
                await self._deliver(text)
            except RefusedAddressError as error:
                self._tell(AddressRefused(str(error), left))
            else:
                self._tell(AddressForwarded())
                return

    async def _deliver(self, text: str) -> None:
        link = self._link.result()
        target = read_redirect(link, text)
        try:
            status = await forward(link.host, link.port, target)
        except OSError:
            raise RefusedAddressError("The agent does not wait for this sign-in any more.") from None
        if status is None or status >= 400:
            said = "gave no answer to it" if status is None else f"answered it with HTTP {status}"
            raise RefusedAddressError(f"The agent {said}. Open the link again for a new address.")


async def _end(tasks: "set[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # seen: the first one was raised already


# ---- looking and leaving --------------------------------------------------------------------------------------------
class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an agent is signed in, as far as it can be told without starting anything.

    :param signed_in: ``unknown`` when neither was said: a session that fails for another reason, or not in time, is no
        sign that a sign-in is missing. :param code: of what failed, ``""`` for ``yes``. :param reason: likewise.
    :param models: ids, empty unless signed in.
    """

    signed_in: Literal["yes", "no", "unknown"]
    code: str = ""
    reason: str = ""
    current_model: str | None = None
    models: tuple[str, ...] = ()


async def standing_of(client: AgentClient) -> Standing:
    """Look by opening an empty session, which never starts a sign-in. Raises nothing of its own."""
    try:
        session = await client.new_session(sign_in=False)
    except LlmError as error:
        return Standing(
            signed_in="no" if error.code == "ACP_AUTH_REQUIRED" else "unknown", code=error.code, reason=error.message
        )
    return Standing(
        signed_in="yes", current_model=session.current_model, models=tuple(choice.id for choice in session.models)
    )


async def sign_out(client: AgentClient, *, timeout_ms: int) -> bool:
    """Ask the agent to forget its sign-in: by ACP's ``logout``, else by the prompt that its profile knows.

    :param timeout_ms: milliseconds for the prompt.
    :returns: whether there was a sign-in; without one nothing is asked.
    :raises LlmError: ``ACP_AUTH_UNSUPPORTED`` when the agent takes neither; what ``session/new`` or the request failed
        with.
    """
    prompt = client.profile.logout_prompt
    if not client.can_log_out and prompt is None:
        raise LlmError(
            "ACP_AUTH_UNSUPPORTED",
            "This agent cannot be signed out over ACP. Sign out with its own program, as its documentation says.",
        )
    try:
        session = await client.new_session(sign_in=False)
    except LlmError as error:
        if error.code == "ACP_AUTH_REQUIRED":
            return False
        # Sessions may be broken for another reason; ACP's own way needs none.
        if not client.can_log_out:
            raise
    try:
        if client.can_log_out:
            await client.log_out()
        else:
            async with asyncio.timeout(timeout_ms / 1000):
                await session.prompt(
                    [{"type": "text", "text": prompt}], on_event=_ignore, on_permission=lambda _: Cancelled()
                )
    except TimeoutError:
        raise timed_out("session/prompt", timeout_ms, "requestTimeoutMs") from None
    except LlmError as error:
        # The session that it was asked in may be the first one that the sign-out takes away.
        if error.code != "ACP_AUTH_REQUIRED":
            raise
    return True


async def _ignore(_: AgentEvent) -> Any:
    return None

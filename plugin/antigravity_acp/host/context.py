"""The context: what plugins share and what is undone when they go.

Owns: services by name, effects and child scopes. A child sees the services of its whole tree; what it provides or
registers ends with it. :meth:`Context.dispose` undoes effects in reverse order, one after the other, children included;
one that fails is logged and does not stop the others. It is bounded, and a cancelled caller does not leave it half
done.
Never: starts anything by itself.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from antigravity_acp.hooks.manager import describe
from antigravity_acp.limits import HOOK_TIMEOUT_S

from ._ending import wait_through
from ._scope import Disposer

if TYPE_CHECKING:
    from .llm import LlmRegistry
    from .tools import ToolRegistry

_log = logging.getLogger("antigravity_acp.host")


class ContextError(Exception):
    """A service is missing or provided twice, or the context is disposed."""


@runtime_checkable
class Scoped(Protocol):
    """A service that hands out a view for one scope, so that what is registered through it ends with that scope."""

    def scoped(self, ctx: "Context") -> Any:
        """The view of this service for ``ctx``."""


class _Effect:
    """One thing to undo, at most once."""

    def __init__(self, owner: "Context", disposer: Disposer, label: str, *, bounded: bool = True) -> None:
        self._owner = owner
        self.bounded = bounded
        self._disposer: Disposer | None = disposer
        self.label = label

    async def __call__(self) -> None:
        disposer, self._disposer = self._disposer, None
        if disposer is None:
            return
        self._owner._drop(self)
        outcome = disposer()
        if inspect.isawaitable(outcome):
            await outcome


class Context:
    """A scope of the host.

    :param name: for logs; a plugin's scope bears the plugin's name.
    """

    def __init__(self, name: str = "host") -> None:
        self.name = name
        self._parent: Context | None = None
        self._services: dict[str, Any] = {}
        self._effects: list[_Effect] = []
        self._disposal: asyncio.Task[tuple[BaseException, ...]] | None = None

    def __repr__(self) -> str:
        return f"Context({self.name!r})"

    # ---- services ---------------------------------------------------------------------------------------------

    def provide(self, name: str, service: Any) -> Callable[[], Awaitable[None]]:
        """Offer a service to the whole tree until this scope is disposed.

        :returns: a disposer that takes it back earlier.
        :raises ContextError: when the name is taken or this scope is disposed.
        """
        self._check_open()
        if name in self._services:
            raise ContextError(f"a service named `{name}` is already provided")
        self._services[name] = service

        def withdraw() -> None:
            self._services.pop(name, None)

        return self.effect(withdraw, f"service {name}")

    def get(self, name: str) -> Any:
        """A service as this scope sees it, or ``None``."""
        service = self._services.get(name)
        return service.scoped(self) if isinstance(service, Scoped) else service

    def require(self, name: str) -> Any:
        """A service as this scope sees it. :raises ContextError: when nobody provides it."""
        service = self.get(name)
        if service is None:
            raise ContextError(f"no service named `{name}` is provided")
        return service

    @property
    def llm(self) -> "LlmRegistry":
        """The model registry."""
        registry: LlmRegistry = self.require("llm")
        return registry

    @property
    def tools(self) -> "ToolRegistry":
        """The tool registry."""
        registry: ToolRegistry = self.require("tools")
        return registry

    @property
    def logger(self) -> logging.Logger:
        """The logger of this scope."""
        return _log if self._parent is None else _log.getChild(self.name)

    # ---- life -------------------------------------------------------------------------------------------------

    @property
    def disposed(self) -> bool:
        """Whether disposal has begun."""
        return self._disposal is not None

    def effect(self, disposer: Disposer, label: str = "") -> Callable[[], Awaitable[None]]:
        """Have ``disposer`` called when this scope is disposed; it may be a plain or a coroutine function.

        :returns: a coroutine function that undoes it now instead; calling it twice is harmless.
        :raises ContextError: when this scope is disposed already.
        """
        self._check_open()
        effect = _Effect(self, disposer, label or getattr(disposer, "__qualname__", "effect"))
        self._effects.append(effect)
        return effect

    def child(self, name: str) -> "Context":
        """A scope inside this one; disposed with it, or earlier by itself."""
        self._check_open()
        child = Context(name)
        child._parent = self
        child._services = self._services
        # Without a limit of its own: every step inside the child has one.
        scope = _Effect(self, child.dispose, f"scope {name}", bounded=False)
        self._effects.append(scope)
        child._effects.append(_Effect(child, lambda: self._drop(scope), "leaving the parent"))
        return child

    async def dispose(self) -> tuple[BaseException, ...]:
        """Undo everything; returns when all of it is undone.

        :returns: what failed on the way, already logged. Calls after the first wait for the same disposal.
        """
        if self._disposal is None:
            self._disposal = asyncio.create_task(self._undo_all(), name=f"dispose {self.name}")
        return await wait_through(self._disposal)

    async def _undo_all(self) -> tuple[BaseException, ...]:
        failures: list[BaseException] = []
        while self._effects:
            effect = self._effects.pop()
            try:
                async with asyncio.timeout(HOOK_TIMEOUT_S if effect.bounded else None):
                    await effect()
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - one failing effect must not keep the others from being undone
                # CancelledError can only come out of the disposer: nobody else holds this task.
                _log.warning("undoing `%s` of `%s` failed: %s", effect.label, self.name, describe(error))
                failures.append(error)
        return tuple(failures)

    def _drop(self, effect: _Effect) -> None:
        self._effects = [each for each in self._effects if each is not effect]

    def _check_open(self) -> None:
        if self._disposal is not None:
            raise ContextError(f"the scope `{self.name}` is disposed")

"""Hooks: typos are found, faults stay with their plugin, denials cannot be lost."""

import asyncio
import pickle
from typing import Any

import pytest

from antigravity_acp.hooks import PluginError, PluginManager, ToolCall, ToolResult, hookimpl
from antigravity_control import Decision

CALL = ToolCall(id="c", name="t", arguments={"password": "hunter2"})


def manager(**plugins: object) -> PluginManager:
    made = PluginManager()
    for name, plugin in plugins.items():
        made.add(name, plugin)
    return made


def judge(answer: Any) -> object:
    class Judge:
        @hookimpl
        def before_tool(self, call: ToolCall) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Judge()


class Typo:
    @hookimpl
    def befor_tool(self, call: ToolCall) -> None: ...


class WrongArgument:
    @hookimpl
    def before_tool(self, tool: ToolCall) -> None: ...


class Unmarked:
    def before_tool(self, call: ToolCall) -> None: ...


class Wrapper:
    @hookimpl(wrapper=True)
    def before_tool(self, call: ToolCall) -> Any:
        return (yield)


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (Typo(), "no hook `befor_tool`; known hooks: configure, register, ready, before_tool, after_tool, dispose"),
        (WrongArgument(), "arguments that its specification has not"),
        (Unmarked(), "implements no hook"),
        (Wrapper(), "wrappers are not taken"),
        (42, "implements no hook"),
        ({"a": 1}, "implements no hook"),
    ],
)
async def test_what_is_no_proper_plugin_is_refused_and_leaves_nothing(plugin: object, words: str) -> None:
    hooks = manager(good=judge(Decision("allow", "fine", "x")))
    with pytest.raises(PluginError) as caught:
        hooks.add("bad", plugin)
    assert words in str(caught.value)
    assert caught.value.plugin == "bad"
    assert hooks.names == ("good",)
    # The others still work, and the name is free again.
    assert (await hooks.before_tool(CALL)).allowed  # type: ignore[union-attr]  # there is an opinion
    hooks.add("bad", judge(None))


def test_a_name_or_object_that_is_there_already_is_refused() -> None:
    plugin = judge(None)
    hooks = manager(a=plugin)
    with pytest.raises(PluginError, match="this name"):
        hooks.add("a", judge(None))
    with pytest.raises(PluginError, match="same object"):
        hooks.add("b", plugin)
    assert hooks.names == ("a",)


async def test_the_strictest_opinion_counts_and_names_its_plugin() -> None:
    hooks = manager(
        lax=judge(Decision("allow", "l", "?")),
        none=judge(None),
        strict=judge(Decision("deny", "s", "?", "my rule")),
        curious=judge(Decision("ask", "c", "?")),
    )
    assert await hooks.before_tool(CALL) == Decision("deny", "s", "hook:strict", "my rule")
    hooks.remove("strict")
    assert await hooks.before_tool(CALL) == Decision("ask", "c", "hook:curious")
    assert await manager(none=judge(None)).before_tool(CALL) is None


@pytest.mark.parametrize("fault", [RuntimeError("hunter2"), "allow", True, {"decision": "allow"}])
async def test_a_hook_that_cannot_judge_denies(fault: Any, caplog: pytest.LogCaptureFixture) -> None:
    hooks = manager(broken=judge(fault), lax=judge(Decision("allow", "l", "?")))
    answer = await hooks.before_tool(CALL)
    assert answer is not None
    assert (answer.decision, answer.source) == ("deny", "hook:broken")
    assert "`broken`" in caplog.text
    assert "hunter2" not in caplog.text + answer.reason


async def test_a_hook_that_hangs_denies_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.hooks.manager.HOOK_TIMEOUT_S", 0.05)

    class Hangs:
        @hookimpl
        async def before_tool(self, call: ToolCall) -> None:
            await asyncio.Event().wait()

    answer = await manager(hangs=Hangs()).before_tool(CALL)
    assert answer is not None
    assert answer.decision == "deny"


async def test_asynchronous_hooks_are_awaited_and_each_sees_what_the_one_before_left() -> None:
    class Redacts:
        @hookimpl
        async def after_tool(self, call: ToolCall, result: ToolResult) -> ToolResult:
            await asyncio.sleep(0)
            return ToolResult.of(result.text.replace("hunter2", "[cut]"), is_error=result.is_error)

    seen = []

    class Watches:
        @hookimpl(tryfirst=True)
        def after_tool(self, result: ToolResult) -> None:
            seen.append(("first", result.text))

    class WatchesLast:
        @hookimpl(trylast=True)
        def after_tool(self, result: ToolResult) -> None:
            seen.append(("last", result.text))

    hooks = manager(last=WatchesLast(), redacts=Redacts(), first=Watches())
    result = await hooks.after_tool(CALL, ToolResult.of("it is hunter2"))
    assert result.text == "it is [cut]"
    assert seen == [("first", "it is hunter2"), ("last", "it is [cut]")]


@pytest.mark.parametrize("answer", [RuntimeError("hunter2"), "text"])
async def test_an_after_hook_that_fails_leaves_the_result_and_the_other_hooks(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        @hookimpl
        def after_tool(self) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    class Adds:
        @hookimpl
        def after_tool(self, result: ToolResult) -> ToolResult:
            return ToolResult.of(result.text + "!")

    for order in ({"broken": Broken(), "adds": Adds()}, {"adds": Adds(), "broken": Broken()}):
        assert (await manager(**order).after_tool(CALL, ToolResult.of("x"))).text == "x!"
    assert "`broken`" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_lifecycle_hook_reaches_its_own_plugin_only_and_its_fault_is_named_without_its_text() -> None:
    log: list[str] = []

    class Plugin:
        def __init__(self, name: str, fault: bool = False) -> None:
            self.name = name
            self.fault = fault

        @hookimpl
        async def ready(self, ctx: object) -> None:
            log.append(self.name)
            if self.fault:
                raise ValueError("hunter2")

    hooks = manager(a=Plugin("a"), b=Plugin("b", fault=True))
    await hooks.ready("a", None)
    with pytest.raises(PluginError) as caught:
        await hooks.ready("b", None)
    assert log == ["a", "b"]
    error = caught.value
    assert (error.plugin, error.stage) == ("b", "ready")
    assert "ValueError at test_hooks.py:" in error.reason
    assert "hunter2" not in str(error)
    assert pickle.loads(pickle.dumps(error)).reason == error.reason


SCHEMA = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}, "additionalProperties": False}


class Configured:
    def __init__(self, manifest: Any) -> None:
        self.manifest = manifest
        self.given: Any = None

    @hookimpl
    def configure(self, config: Any, manifest: Any) -> None:
        assert manifest is self.manifest
        self.given = config


@pytest.mark.parametrize("config", [{"size": "hunter2"}, {"size": 0}, {"colour": "hunter2"}])
async def test_settings_that_do_not_fit_the_manifest_never_reach_the_plugin(config: dict[str, Any]) -> None:
    plugin = Configured({"settings": SCHEMA})
    hooks = manager(p=plugin)
    with pytest.raises(PluginError) as caught:
        await hooks.configure("p", config)
    assert next(iter(config)) in caught.value.reason
    assert "hunter2" not in caught.value.reason
    assert plugin.given is None
    await hooks.configure("p", {"size": 3})
    assert plugin.given == {"size": 3}


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/passwd"}]
)
async def test_a_settings_schema_that_is_unusable_is_the_plugins_fault(schema: Any) -> None:
    with pytest.raises(PluginError, match="settings schema is not usable"):
        await manager(p=Configured({"settings": schema})).configure("p", {})


async def test_a_plugin_without_a_manifest_is_configured_as_it_is() -> None:
    plugin = Configured(None)
    await manager(p=plugin).configure("p", {"anything": 1})
    assert plugin.given == {"anything": 1}


def test_arguments_and_results_do_not_show_in_reprs() -> None:
    assert "hunter2" not in repr(CALL)
    assert "hunter2" not in repr(ToolResult.of("hunter2"))


async def test_arguments_that_cannot_be_copied_keep_no_hook_from_the_result() -> None:
    """What looks for secrets in results is such a hook."""
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5_000):
        inner["x"] = inner = {}
    seen: list[dict[str, Any]] = []

    class Watch:
        @hookimpl
        def before_tool(self, call: ToolCall) -> None:
            """Never reached."""

        @hookimpl
        def after_tool(self, call: ToolCall, result: ToolResult) -> ToolResult:
            seen.append(call.arguments)
            return ToolResult.of("looked at")

    manager = PluginManager()
    manager.add("watch", Watch())
    call = ToolCall(id="1", name="x", arguments=deep)
    opinion = await manager.before_tool(call)
    assert opinion is not None
    assert opinion.decision == "deny"
    assert (await manager.after_tool(call, ToolResult.of("as it was"))).text == "looked at"
    assert seen == [{}]

"""Discovery by real entry points in real distributions, and a host that goes on without what is broken."""

import asyncio
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.scripted_adapter import ScriptedAdapter

from antigravity_acp.host import Context, Host, Selection, discover
from antigravity_acp.host.discovery import VARIABLE

GOOD = """
    from antigravity_acp.hooks import hookimpl

    log = []

    @hookimpl
    def configure(config):
        log.append(("configure", dict(config)))

    @hookimpl
    async def register(ctx):
        log.append("register")
        ctx.effect(lambda: log.append("undone"))

    @hookimpl
    def ready(ctx):
        log.append(("ready", sorted(name for name in ("zeta",) if ctx.get(name))))

    @hookimpl
    async def dispose(ctx):
        log.append("dispose")
"""
ZETA = """
    from antigravity_acp.hooks import hookimpl

    class Plugin:
        @hookimpl
        def register(self, ctx):
            ctx.provide("zeta", self)
"""


class Site:
    """A folder on the import path that holds distributions."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, source: str, target: str = "", distribution: str = "") -> None:
        module = f"fixture_{name.replace('-', '_')}"
        distribution = distribution or f"dist_{module}"
        (self.root / f"{module}.py").write_text(textwrap.dedent(source), "utf-8")
        info = self.root / f"{distribution}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[dsh.plugins]\n{name} = {target or module}\n", "utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(str(tmp_path))
    # Without the distribution under test: its own plugin has tests of its own.
    monkeypatch.setenv(VARIABLE, "!antigravity-acp")
    yield Site(tmp_path)
    for name in [name for name in sys.modules if name.startswith("fixture_")]:
        del sys.modules[name]


@pytest.mark.requirement("A-002")
async def test_an_installed_plugin_is_found_configured_registered_and_undone(site: Site) -> None:
    site.add("good", GOOD)
    site.add("zeta", ZETA, "fixture_zeta:Plugin")
    host = await Host({"good": {"a": 1}}).start()
    log = sys.modules["fixture_good"].log
    # Every plugin is registered before the first one is told that it is ready.
    assert log == [("configure", {"a": 1}), "register", ("ready", ["zeta"])]
    assert host.failures == []
    await host.dispose()
    assert log[3:] == ["dispose", "undone"]
    await host.dispose()
    assert log[5:] == []


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("raise RuntimeError('hunter2')", "", "RuntimeError at fixture_bad.py:1"),
        ("import not_installed_anywhere", "", "module `not_installed_anywhere`"),
        ("def broken(:", "", "SyntaxError"),
        ("raise SystemExit('hunter2')", "", "SystemExit"),
        ("x = 1", "fixture_bad:missing", "AttributeError"),
        ("plugin = 42", "fixture_bad:plugin", "implements no hook"),
        (
            "from antigravity_acp.hooks import hookimpl\n@hookimpl\ndef regsiter(ctx): ...",
            "",
            "no hook `regsiter`",
        ),
        (
            "from antigravity_acp.hooks import hookimpl\n@hookimpl\ndef configure(config): raise ValueError('hunter2')",
            "",
            "failed in configure: ValueError at fixture_bad.py:3",
        ),
        (
            "from antigravity_acp.hooks import hookimpl\n@hookimpl\nasync def ready(ctx): raise ValueError('hunter2')",
            "",
            "failed in ready: ValueError",
        ),
        ("class Plugin:\n    def __init__(self): raise ValueError('hunter2')", "fixture_bad:Plugin", "failed in load"),
    ],
)
async def test_a_broken_plugin_is_named_and_the_host_goes_on(
    site: Site, source: str, target: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.add("bad", source, target)
    site.add("good", GOOD)
    async with await Host().start() as host:
        assert host.hooks.names == ("good",)
        (failure,) = host.failures
        assert failure.plugin == "bad"
        assert words in str(failure)
        assert f"plugin `bad` failed in {failure.stage}" in caplog.text
        assert "the host goes on without it" in caplog.text
        assert "hunter2" not in caplog.text + str(failure)


async def test_what_a_plugin_registered_before_it_failed_is_undone(site: Site) -> None:
    site.add(
        "half",
        """
        from antigravity_acp.hooks import hookimpl

        log = []

        @hookimpl
        def register(ctx):
            ctx.provide("half", 1)
            ctx.effect(lambda: log.append("undone"))
            raise ValueError
        """,
    )
    async with await Host().start() as host:
        assert host.ctx.get("half") is None
        assert sys.modules["fixture_half"].log == ["undone"]


async def test_a_name_that_two_distributions_use_is_mounted_once_and_reported(site: Site) -> None:
    site.add("good", GOOD)
    site.add("other", GOOD, distribution="dist_other")
    (site.root / "dist_other-1.0.dist-info" / "entry_points.txt").write_text("[dsh.plugins]\ngood = fixture_other\n")
    async with await Host().start() as host:
        assert host.hooks.names == ("good",)
        assert "second distribution" in str(host.failures[0])


@pytest.mark.parametrize(
    ("argument", "variable", "loaded"),
    [
        (None, None, {"good", "zeta"}),
        (None, "good", {"good"}),
        (None, "!good", {"zeta"}),
        (None, "", set()),
        (None, "good,zeta,!zeta", {"good"}),
        (Selection(only=frozenset({"zeta"})), None, {"zeta"}),
        (Selection(without=frozenset({"zeta"})), None, {"good"}),
        (Selection(only=frozenset({"zeta"})), "good", set()),
        (Selection(), " good , !zeta ", {"good"}),
    ],
)
def test_only_wanted_plugins_are_imported(
    site: Site, argument: Selection | None, variable: str | None, loaded: set[str]
) -> None:
    site.add("good", GOOD)
    site.add("zeta", ZETA)
    found = discover(argument, {} if variable is None else {VARIABLE: variable})
    assert {each.name for each in found} - {"antigravity-acp"} == loaded
    assert {name for name in ("good", "zeta") if f"fixture_{name}" in sys.modules} == loaded


def test_a_plugin_that_is_asked_for_and_missing_is_named(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    assert list(discover(Selection(only=frozenset({"nowhere"})))) == []
    assert "`nowhere` is asked for and not installed" in caplog.text


async def test_two_hosts_mount_instances_of_their_own(site: Site) -> None:
    site.add("zeta", ZETA, "fixture_zeta:Plugin")
    async with await Host().start() as first, await Host().start() as second:
        assert first.ctx.require("zeta") is not second.ctx.require("zeta")


async def test_plugins_are_undone_last_mounted_first_and_one_can_go_alone() -> None:
    from antigravity_acp.hooks import hookimpl

    log: list[str] = []

    class Plugin:
        def __init__(self, name: str) -> None:
            self.name = name

        @hookimpl
        def register(self, ctx: object) -> None:
            log.append(f"+{self.name}")

        @hookimpl
        def dispose(self, ctx: object) -> None:
            log.append(f"-{self.name}")
            if self.name == "b":
                raise ValueError

    async with Host() as host:
        for name in "abc":
            assert await host.mount(name, Plugin(name))
        await host.unmount("a")
        assert host.hooks.names == ("b", "c")
        await host.unmount("a")
    assert log == ["+a", "+b", "+c", "-a", "-c", "-b"]
    assert [each.stage for each in host.failures] == ["dispose"]


async def test_a_start_that_is_cancelled_undoes_what_it_had_mounted(site: Site) -> None:
    site.add("good", GOOD)
    site.add(
        "slow",
        """
        import asyncio
        from antigravity_acp.hooks import hookimpl

        entered = asyncio.Event()

        @hookimpl
        async def register(ctx):
            entered.set()
            await asyncio.Event().wait()
        """,
    )
    starting = asyncio.create_task(Host().start())
    async with asyncio.timeout(10):
        while "fixture_slow" not in sys.modules:
            await asyncio.sleep(0)
        await sys.modules["fixture_slow"].entered.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert sys.modules["fixture_good"].log[-2:] == ["dispose", "undone"]


async def test_a_foreign_plugin_may_bring_a_default_model_by_its_manifest() -> None:
    from antigravity_acp.hooks import hookimpl

    class Plugin:
        def __init__(self) -> None:
            self.manifest = {"provider": "scripted", "defaultModel": "small"}

        @hookimpl
        def register(self, ctx: Context) -> None:
            ctx.llm.register_adapter(["scripted"], ScriptedAdapter())

    async with Host() as host:
        await host.mount("scripted", Plugin())
        assert str(host.choose_model()) == "scripted/small"

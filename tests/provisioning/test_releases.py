"""The pinned release as data: what it says, and what a list may never say."""

import copy
import json
from importlib import resources
from typing import Any

import pytest

from antigravity_provisioning import machine, releases
from antigravity_provisioning.errors import ProvisioningError

TEXT = resources.files("antigravity_provisioning").joinpath("releases.json").read_text("utf-8")
PLATFORMS = {f"{system}-{machine}" for system in ("darwin", "linux", "windows") for machine in ("aarch64", "x86_64")}


@pytest.mark.requirement("A-050", "X-005")
def test_every_platform_has_the_pinned_release_from_google_alone() -> None:
    pinned = releases.pinned_releases()
    assert set(pinned) == PLATFORMS
    assert {asset.version for asset in pinned.values()} == {"1.3.0"}
    assert len({asset.sha256 for asset in pinned.values()}) == len({asset.url for asset in pinned.values()}) == 6
    for platform, asset in pinned.items():
        system = platform.partition("-")[0]
        folder = {"darwin": "macos"}.get(system, system)
        assert asset.platform == platform
        assert asset.url.startswith(f"https://dl.google.com/agy-extensions/releases/{folder}/agy-acp-server-1.3.0-")
        assert asset.args == (("--uid=",) if system == "linux" else ())
        end = ".exe" if system == "windows" else ""
        assert asset.command == f"agy_acp_server{end or '.par'}"
        assert asset.siblings == (f"localharness_external{end}",)
        assert asset.size < asset.unpacked < 4 * asset.size


def test_known_numbers_of_one_platform() -> None:
    asset = releases.pinned("linux-x86_64")
    assert asset.url == "https://dl.google.com/agy-extensions/releases/linux/agy-acp-server-1.3.0-linux-x86_64.zip"
    assert (asset.size, asset.unpacked) == (333_727_150, 926_533_965 + 130_388_040)
    assert asset.sha256 == "9fb60956af0a9d76220a4db91ca9ac88e2a2372ad68f985ab5fceace6b825b96"


@pytest.mark.requirement("A-053")
def test_the_list_says_that_third_parties_computed_the_hashes() -> None:
    data = json.loads(TEXT)
    assert all("third party" in entry["sha256_source"] for entry in data["platforms"].values())
    assert any("no signature" in note for note in data["notes"])
    assert any("dc55a34900fdd60e5e97c1cbd7825c5a1df673fc" in note for note in data["notes"])


def test_this_machine_is_the_default_and_one_without_a_release_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "platform_key", lambda: "darwin-aarch64")
    assert releases.pinned().platform == "darwin-aarch64"
    with pytest.raises(ProvisioningError, match=r"freebsd-riscv64.*linux-x86_64") as caught:
        releases.pinned("freebsd-riscv64")
    assert (caught.value.stage, caught.value.reason) == ("platform", "platform")


def test_no_environment_variable_chooses_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(releases.pinned_releases())
    releases.pinned_releases.cache_clear()
    for name in ("AGY_ACP_URL", "ANTIGRAVITY_ACP_URL", "AGY_ACP_BIN", "HTTPS_PROXY", "ANTIGRAVITY_ACP_RELEASES"):
        monkeypatch.setenv(name, "https://evil.example/agy.zip")
    assert dict(releases.pinned_releases()) == before


SPOILED: list[tuple[str, Any]] = [
    ("url", "http://dl.google.com/a.zip"),
    ("url", "https://dl.google.com.evil.example/a.zip"),
    ("url", "https://evil.example/dl.google.com/a.zip"),
    ("url", "https://user@dl.google.com/a.zip"),
    ("url", "https://dl.google.com:8443/a.zip"),
    ("url", "https://dl.google.com@evil.example/a.zip"),
    ("url", "https://dl.google.com/../a.zip"),
    ("url", "https://dl.google.com/a.zip?to=https://evil.example"),
    ("url", "https://dl.google.com/a.zip#b.zip"),
    ("url", "https://dl.google.com/a.tar"),
    ("url", "file:///a.zip"),
    ("url", None),
    ("size", 0),
    ("size", -1),
    ("size", True),
    ("size", 1.5),
    ("size", "7"),
    ("size", 1 << 40),
    ("sha256", "0" * 63),
    ("sha256", "G" * 64),
    ("sha256", "A" * 64),
    ("sha256", "0" * 64 + "\n"),
    ("sha256", None),
    ("sha256_source", ""),
    ("sha256_source", None),
    ("command", "other"),
    ("command", None),
    ("args", "--uid="),
    ("args", [1]),
    ("files", {}),
    ("files", None),
    ("files", {"../agy_acp_server.par": 1}),
    ("files", {"agy_acp_server.par": 0}),
    ("files", {"agy_acp_server.par": 2 << 30, "b": 1}),
]


@pytest.mark.requirement("A-050")
@pytest.mark.parametrize(("field", "value"), SPOILED)
def test_a_list_with_a_single_wrong_value_is_refused(field: str, value: Any) -> None:
    data = json.loads(TEXT)
    spoiled = copy.deepcopy(data)
    spoiled["platforms"]["linux-x86_64"][field] = value
    with pytest.raises(ValueError, match="linux-x86_64"):
        releases.parse(json.dumps(spoiled))
    del data["platforms"]["linux-x86_64"][field]
    with pytest.raises(ValueError, match="linux-x86_64"):
        releases.parse(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"platforms": []}', '{"version": "../1", "platforms": {}}'])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of them will do, the words differ
        releases.parse(text)
    with pytest.raises(ValueError, match="not a platform"):
        releases.parse('{"version": "1.2", "platforms": {"linux-m68k": {}}}')


def test_a_damaged_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "parse", lambda _: json.loads("{"))
    releases.pinned_releases.cache_clear()
    try:
        with pytest.raises(ProvisioningError, match="Install it again") as caught:
            releases.pinned("linux-x86_64")
        assert caught.value.reason == "damaged"
    finally:
        releases.pinned_releases.cache_clear()

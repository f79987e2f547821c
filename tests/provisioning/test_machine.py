"""What this machine is, told from what other machines say; what is not known passes."""

import ctypes
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from antigravity_provisioning import machine, releases
from antigravity_provisioning.errors import ProvisioningError

MARK = pytest.mark.parametrize


@MARK(
    ("system", "name", "key"),
    [
        ("Linux", "x86_64", "linux-x86_64"),
        ("Linux", "aarch64", "linux-aarch64"),
        ("Linux", "AMD64", "linux-x86_64"),
        ("Linux", "armv7l", "linux-armv7l"),
        ("Linux", "armv8l", "linux-armv8l"),
        ("Linux", "i686", "linux-i686"),
        ("Linux", "riscv64", "linux-riscv64"),
        ("Darwin", "arm64", "darwin-aarch64"),
        ("Darwin", "x86_64", "darwin-x86_64"),
        ("Windows", "AMD64", "windows-x86_64"),
        ("Windows", "ARM64", "windows-aarch64"),
        ("Windows", "x86", "windows-x86"),
        ("FreeBSD", "amd64", "freebsd-x86_64"),
        ("", "", "unknown-unknown"),
    ],
)
def test_platforms_have_the_names_of_the_registry(
    system: str, name: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: name)
    assert machine.platform_key() == key
    if key in releases.pinned_releases():
        assert releases.pinned().platform == key
    else:
        with pytest.raises(ProvisioningError, match=key):
            releases.pinned()


def refuses(key: str) -> bool:
    try:
        machine.check_cpu(releases.pinned(key))
    except ProvisioningError as error:
        refusal = error
    else:
        return False
    assert (refusal.stage, refusal.reason) == ("platform", "cpu")
    assert "AVX" in refusal.message
    return True


@MARK(
    ("text", "avx"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse2 avx avx2\n", True),
        ("processor\t: 0\nflags\t\t: fpu sse2 ssse3 avx2_not avx512\nprocessor: 1\nflags: avx\n", False),
        ("flags\t\t:\n", False),
        ("processor\t: 0\nmodel name\t: avx\n", None),
        ("", None),
        (None, None),
    ],
)
def test_linux_tells_avx_by_its_flags_and_unknown_ones_pass(
    text: str | None, avx: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(machine, "_CPUINFO", str(file))
    assert machine.has_avx("linux-x86_64") is avx
    assert refuses("linux-x86_64") is (avx is False)
    assert machine.has_avx("linux-aarch64") is None
    assert not refuses("linux-aarch64")


@MARK(
    ("known", "avx"),
    [
        ({"hw.optional.avx1_0": True}, True),
        ({"hw.optional.avx1_0": False, "sysctl.proc_translated": False}, False),
        ({"hw.optional.avx1_0": False, "sysctl.proc_translated": True}, None),
        ({}, None),
    ],
)
def test_macos_tells_avx_by_sysctl_and_rosetta_is_not_guessed_about(
    known: dict[str, bool], avx: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_sysctl", known.get)
    assert machine.has_avx("darwin-x86_64") is avx
    assert refuses("darwin-x86_64") is (avx is False)
    assert machine.has_avx("darwin-aarch64") is None


@MARK(("features", "avx"), [({36, 39}, True), ({36}, False), (set(), None)])
def test_windows_tells_avx_by_its_feature_and_old_versions_do_not_know_it(
    features: set[int], avx: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = SimpleNamespace(IsProcessorFeaturePresent=lambda number: int(number in features))
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert machine.has_avx("windows-x86_64") is avx
    assert refuses("windows-x86_64") is (avx is False)


@MARK("fault", [OSError, AttributeError])
def test_a_question_that_fails_refuses_nobody(fault: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise fault

    for name in ("_linux_flag", "_sysctl", "_windows_avx"):
        monkeypatch.setattr(machine, name, fail)
    for key in ("linux-x86_64", "darwin-x86_64", "windows-x86_64"):
        assert not refuses(key)


@pytest.mark.skipif(sys.platform != "linux", reason="the flags of Linux")
def test_the_real_flags_of_this_machine_are_read() -> None:
    text = Path("/proc/cpuinfo").read_text()
    if platform.machine() == "x86_64":
        assert machine.has_avx() is (" avx " in text)


def free(count: int) -> Callable[[object], object]:
    return lambda _: SimpleNamespace(total=10 * count, used=0, free=count)


def test_the_disk_of_a_folder_that_is_not_there_yet_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(path) or free(1000)(path))
    machine.check_disk(tmp_path / "a" / "b" / "c", 1000)
    assert asked == [tmp_path]
    with pytest.raises(ProvisioningError) as caught:
        machine.check_disk(tmp_path / "a", 50_000_001)
    assert (caught.value.stage, caught.value.reason) == ("disk", "disk-full")
    assert "51 MB are needed" in caught.value.message
    assert "Free 50 MB" in caught.value.message


def test_a_disk_that_cannot_be_asked_is_a_disk_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "disk_usage", fail)
    with pytest.raises(ProvisioningError) as caught:
        machine.check_disk(tmp_path, 1)
    assert caught.value.reason == "disk"


def test_the_space_that_is_needed_counts_archive_files_and_margin() -> None:
    asset = releases.pinned("linux-x86_64")
    assert machine.space_needed(asset) == asset.size + asset.unpacked + machine.MARGIN
    assert machine.space_needed(asset._replace(unpacked=0)) == 5 * asset.size + machine.MARGIN


def test_facts_for_a_report_are_plain_values(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = machine.describe()
    assert facts["platform"] == machine.platform_key()
    assert facts["python_bits"] in (32, 64)
    assert set(facts) == {"platform", "system", "machine", "python_bits", "libc", "avx", "translated"}
    if sys.platform == "linux":
        monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
        monkeypatch.setattr(machine.glob, "glob", lambda _: ["/lib/ld-musl-x86_64.so.1"])
        assert machine.describe()["libc"] == "musl"
        monkeypatch.setattr(machine.glob, "glob", lambda _: [])
        assert machine.describe()["libc"] == "unknown"


@pytest.mark.skipif(sys.platform != "linux", reason="a C library without sysctlbyname")
def test_a_missing_sysctl_is_an_attribute_error_that_passes() -> None:
    assert machine.has_avx("darwin-x86_64") is None

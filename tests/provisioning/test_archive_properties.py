"""What holds for every archive: exact limits, good ones come back as they were, flipped ones do no harm."""

import hashlib
import os
import struct
import zipfile
from pathlib import Path

import pytest
from helpers.archives import Member, build, extra
from hypothesis import given, settings
from hypothesis import strategies as st

from antigravity_provisioning import _entries
from antigravity_provisioning._names import Tree, fault_of_path
from antigravity_provisioning.archive import FileEntry, unpack
from antigravity_provisioning.errors import ProvisioningError

GIB = 1024**3
GOOD = Member("good.txt", b"good\n" * 100)


def test_the_limit_on_entries_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    path.write_bytes(build([Member(f"f/{index}", b"", method=0) for index in range(4096)]))
    with path.open("rb") as file:
        assert len(_entries.inspect(file, path.stat().st_size)) == 4096


def test_the_limit_on_bytes_counts_what_is_declared_in_all(tmp_path: Path) -> None:
    path = tmp_path / "large.zip"
    for sizes, fine in (((GIB, GIB), True), ((GIB, GIB + 1), False)):
        # Only what is declared counts here, so the packed sizes may say that there is enough data for it.
        said = [{"unpacked": size, "packed": len(GOOD.data)} for size in sizes]
        members = [Member(f"{i}", packed=GOOD.data, local=both, central=both) for i, both in enumerate(said)]
        path.write_bytes(build(members))
        with path.open("rb") as file, pytest.raises(ProvisioningError) as caught:
            _entries.inspect(file, path.stat().st_size)
        assert ("2 GiB" in caught.value.message) is not fine


@pytest.mark.parametrize(
    ("packed", "unpacked", "fine"),
    [
        (1, _entries.SMALL, True),
        (1, _entries.SMALL + 1, False),
        (200_000, 20_000_000, True),
        (200_000, 20_000_001, False),
    ],
)
def test_the_limit_on_the_ratio_is_exact(tmp_path: Path, packed: int, unpacked: int, fine: bool) -> None:
    path = tmp_path / "dense.zip"
    both = {"unpacked": unpacked}
    path.write_bytes(build([Member("a", packed=bytes(packed), local=both, central=both)]))
    with path.open("rb") as file:
        if fine:
            assert _entries.inspect(file, path.stat().st_size)[0].unpacked == unpacked
            return
        with pytest.raises(ProvisioningError, match="entry 1 unpacks to more than 100 times its size"):
            _entries.inspect(file, path.stat().st_size)


FLIPPED = build(
    [
        Member("stored", b"stored " * 9, method=0, mode=0o100755),
        Member("deflated", b"deflated " * 40),
        Member("folder/", b"", method=0, mode=0o40755),
        Member("folder/described", b"described", descriptor=(4, True)),
        Member("wide", b"wide", central={"unpacked": 0xFFFFFFFF}, central_extra=extra(1, struct.pack("<Q", 4))),
    ],
    end64={},
    comment=b"a comment",
)
CONTENTS = {b"stored " * 9, b"deflated " * 40, b"described", b"wide"}


@settings(max_examples=120, deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0, len(FLIPPED) - 1), st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes_are_refused_or_change_no_content(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    root = tmp_path_factory.mktemp("flips")
    data = bytearray(FLIPPED)
    for position, mask in flips:
        data[position] ^= mask
    (root / "archive.zip").write_bytes(data)
    staging = root / "staging"
    staging.mkdir()
    entries: list[FileEntry] = []
    try:
        entries = unpack(root / "archive.zip", staging)
    except ProvisioningError:
        assert not list(staging.iterdir())
    assert sorted(os.listdir(root)) == ["archive.zip", "staging"]
    files = {path.relative_to(staging).as_posix() for path in staging.rglob("*") if not path.is_dir()}
    assert files == {entry.path for entry in entries}
    assert {(staging / entry.path).read_bytes() for entry in entries} <= CONTENTS


def components() -> st.SearchStrategy[str]:
    letters = st.characters(categories=("L", "N", "P", "S", "Zs"))
    return st.text(letters, min_size=1, max_size=12).filter(lambda name: not fault_of_path(name))


def paths() -> st.SearchStrategy[str]:
    return st.lists(components(), min_size=1, max_size=4).map("/".join)


@settings(max_examples=25, deadline=None)
@given(
    files=st.dictionaries(
        paths(),
        st.tuples(st.binary(max_size=3000), st.integers(1, 40), st.sampled_from([0, 8]), st.booleans()),
        min_size=1,
        max_size=6,
    ),
    comment=st.binary(max_size=30).filter(lambda text: b"PK" not in text),
)
def test_what_zipfile_writes_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[bytes, int, int, bool]],
    comment: bytes,
) -> None:
    tree = Tree()
    good = {path: value for path, value in files.items() if not tree.add(path, folder=False)}
    root = tmp_path_factory.mktemp("trip")
    with zipfile.ZipFile(root / "archive.zip", "w") as writer:
        writer.comment = comment
        for path, (data, times, method, executable) in good.items():
            info = zipfile.ZipInfo(path)
            info.create_system, info.external_attr = 3, (0o100755 if executable else 0o100644) << 16
            writer.writestr(info, data * times, method)
    (root / "staging").mkdir()
    entries = unpack(root / "archive.zip", root / "staging", required=list(good))
    expected = {path: (data * times, executable) for path, (data, times, _, executable) in good.items()}
    assert {e.path: ((root / "staging" / e.path).read_bytes(), e.executable) for e in entries} == expected
    assert all(e.sha256 == hashlib.sha256(expected[e.path][0]).hexdigest() for e in entries)

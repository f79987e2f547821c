"""Hostile archives: each is refused for its own reason; nothing is written beside the staging folder or left in it."""

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.archives import Member, build, deflated, extra

from antigravity_provisioning.archive import READ, unpack
from antigravity_provisioning.errors import ProvisioningError

#: A good entry first, so that a reader that writes before it has seen everything is found out.
GOOD = Member("good.txt", b"good\n" * 100)
GIB = 1024**3


class Case(NamedTuple):
    what: str
    archive: bytes
    message: str
    reason: str = "archive"


def named(what: str, name: str | bytes, message: str, **rest: object) -> Case:
    return Case(what, build([GOOD, Member(name, **rest)]), f"entry 2 {message}")  # type: ignore[arg-type]


def second(what: str, message: str, **rest: object) -> Case:
    return named(what, "second.txt", message, **rest)


def typed(what: str, mode: int, message: str) -> Iterator[Case]:
    yield second(what, message, mode=mode)
    # The same from a system that has no such types: the mode is there all the same, and some readers believe it.
    yield second(f"{what} that claims to come from DOS", message, mode=mode, central={"made": 20})


def paths() -> Iterator[Case]:
    outside = "leads out of the folder"
    yield named("parent", "../outside.txt", outside)
    yield named("parent in the middle", "a/../../outside.txt", outside)
    yield named("parent at the end", "a/..", outside)
    yield named("parent after a dot", "./../outside.txt", outside)
    yield named("full-width parent", "\uff0e\uff0e/outside.txt", outside)
    yield named("two-dot leader", "\u2025/outside.txt", outside)
    yield named("full-width slash", "..\uff0foutside.txt", "has a disguised separator in its name")
    yield named("full-width backslash", "..\uff3coutside.txt", "has a disguised separator in its name")
    yield named("account-of sign", "a\u2100b", "has a disguised separator in its name")
    yield named("absolute", "/tmp/outside.txt", "has an absolute path")
    yield named("absolute after a dot", ".//tmp/outside.txt", "has an absolute path")
    yield named("root alone", "/", "has no name")
    yield named("two slashes", "//server/share/file", "has an absolute path")
    yield named("network path", "\\\\server\\share\\file", "has a network path")
    yield named("backslashes", "..\\outside.txt", "has a backslash in its path")
    yield named("drive letter", "C:/outside.txt", "has a drive letter in its path")
    yield named("drive without root", "c:outside.txt", "has a drive letter in its path")
    yield named("stream", "good.exe:hidden", "names a stream")
    yield named("full-width colon", "good.exe\uff1ahidden", "names a stream")
    yield named("NUL cuts the name", "second.txt\0.png", "has a NUL character")
    yield named("control character", "a\x1b[2Jb", "has a control or invisible character")
    yield named("line feed", "a\nb", "has a control or invisible character")
    yield named("right-to-left override", "exe.\u202etxt", "has a control or invisible character")
    yield named("zero-width space", "go\u200bod", "has a control or invisible character")
    yield named("trailing dot", "second.txt.", "has a space or dot at the edge")
    yield named("trailing space", "second.txt ", "has a space or dot at the edge")
    yield named("folder with a trailing dot", "a./b", "has a space or dot at the edge")
    yield named("only dots", ".../b", "has a space or dot at the edge")
    yield named("wildcard", "what?.txt", "has a character that some systems cannot write")
    for device in ("CON", "nul", "aux.txt", "COM1", "lpt9.log", "COM\u00b9", "com\u00b2.par", "PRN .txt", "CONIN$"):
        yield named(f"reserved name {device!r}", device, "has a name that Windows reserves")
    yield named("reserved folder", "a/con/b", "has a name that Windows reserves")
    yield named("full-width reserved name", "\uff23\uff2f\uff2e", "has a name that Windows reserves")
    yield named("empty", "", "has no name")
    yield named("empty component", "a//b", "has an empty component")
    yield named("dot", "a/./b", "has `.` as a component")
    yield named("dot alone", "./", "has no name")
    yield named("long component", "x" * 256, "has a name that is too long")
    yield named("component that is long in bytes", "\u20ac" * 86, "has a name that is too long")
    yield named("long path", "/".join(["x" * 200] * 6), "has a path that is too long")
    yield named("deep", "/".join(["x"] * 17), "lies too deep")
    yield named("not UTF-8", b"a\xff\xfe", "has a name that is not UTF-8", flags=0x800)
    yield named("surrogate", b"a\xed\xa0\x80", "has a name that is not UTF-8", flags=0x800)
    yield named("overlong slash", b"..\xc0\xafoutside", "has a name that is not UTF-8", flags=0x800)
    yield named(
        "unknown encoding", "caf\u00e9".encode("cp437"), "has a name in an encoding that it does not tell", flags=0
    )
    yield second("other name in its header", "has another name in its header", local_name="../outside")
    yield second("longer name in its header", "has another name in its header", local_name="second.txt\0")
    unicode_path = extra(0x7075, b"\x01" + struct.pack("<I", zlib.crc32(b"second.txt")) + b"../outside")
    yield second("second name in an extra field", "has two names", central_extra=unicode_path)
    yield second("second name in the header", "has two names", local_extra=unicode_path)


def types() -> Iterator[Case]:
    yield from typed("symbolic link", stat.S_IFLNK | 0o777, "is a symbolic link")
    yield from typed("character device", stat.S_IFCHR | 0o666, "is a device")
    yield from typed("block device", stat.S_IFBLK | 0o666, "is a device")
    yield from typed("pipe", stat.S_IFIFO | 0o666, "is a pipe")
    yield from typed("socket", stat.S_IFSOCK | 0o666, "is a socket")
    yield from typed("unknown type", 0o150644, "has no known type")
    yield from typed("folder without a slash", stat.S_IFDIR | 0o755, "is a file and a folder at once")
    yield named("file with a slash", "a/", "is a file and a folder at once", data=b"", mode=0o100644)
    yield second("folder by its DOS attribute", "is a file and a folder or label", central={"attributes": 0x10})
    yield second("volume label", "is a file and a folder or label", central={"attributes": 0x08})
    yield named("link to a folder", "a/", "is a symbolic link", data=b"", mode=stat.S_IFLNK | 0o777)
    yield named("folder with contents", "a/", "is a folder with contents", mode=0o40755)


def clashes() -> Iterator[Case]:
    same, alike = "has the same name as an entry before it", "differs from an entry before it only in"
    kinds = "is a file where another entry has a folder, or a folder where another is a file"
    for what, first, other, message in (
        ("twice the same", "a", "a", same),
        ("twice the same folder", "a/", "a/", same),
        ("dot before the same", "a", "./a", same),
        ("other case", "Read.me", "README".replace("ME", ".me"), alike),
        ("sharp s", "stra\u00dfe", "STRASSE", alike),
        ("composed and decomposed", "caf\u00e9", "cafe\u0301", alike),
        ("ligature", "\ufb01le", "file", alike),
        ("full-width letters", "\uff41b", "ab", alike),
        ("Kelvin sign", "\u212a", "k", alike),
        ("folders in other case", "Lib/a", "lib/b", alike),
        ("file and folder", "a", "a/", kinds),
        ("file above a file", "a", "a/b", kinds),
        ("file in the place of a folder", "a/b", "a", kinds),
        ("file in other case above a file", "A", "a/b", alike),
    ):
        yield Case(
            what,
            build(
                [
                    Member(name, b"" if name.endswith("/") else b"x", mode=0o40755 if name.endswith("/") else 0o100644)
                    for name in (first, other)
                ]
            ),
            f"entry 2 {message}",
        )


def kinds() -> Iterator[Case]:
    yield second("encrypted", "is encrypted", flags=0x1)
    yield second("strongly encrypted", "is encrypted", flags=0x41)
    yield second("masked headers", "is encrypted", flags=0x2000)
    yield second("patch data", "is compressed in a way", flags=0x20)
    for method in (1, 6, 9, 12, 14, 93, 95, 97, 98, 99):
        yield second(f"method {method}", "is compressed in a way", method=method)
    yield second("needs features", "needs features", central={"needed": 63})
    yield second("method in the header", "has another kind in its header", local={"method": 0})
    yield second("flags in the header", "has another kind in its header", local={"flags": 1})
    yield second("directory tells of a descriptor", "has another kind in its header", central={"flags": 8})


def sizes() -> Iterator[Case]:
    other = "has another size or checksum in its header"
    yield second("other size in its header", other, local={"unpacked": 4})
    yield second("other packed size in its header", other, local={"packed": 4})
    yield second("other checksum in its header", other, local={"crc": 4})
    yield second("zeros without a descriptor", other, local={"crc": 0, "packed": 0, "unpacked": 0})
    yield second("stored with two sizes", "is stored as it is and yet has two", method=0, central={"unpacked": 4})
    both = {"unpacked": 4}
    yield second("more than declared", "is larger than it says", local=both, central=both)
    both = {"unpacked": 6}
    yield second("less than declared", "is smaller than it says", local=both, central=both)
    both = {"crc": 1}
    yield second("wrong checksum", "does not have the checksum", local=both, central=both)
    yield second("wrong checksum of what is stored", "does not have the checksum", method=0, local=both, central=both)
    yield named("wrong checksum of a folder", "a/", "does not have the ch", data=b"", mode=0, local=both, central=both)
    yield second("damaged data", "has damaged data", packed=b"\xff" * 9)
    yield second("stream without end", "ends too early", packed=deflated(b"data\n" * 999)[:-2], data=b"data\n" * 999)
    yield second("data behind the stream", "has data behind its end", packed=deflated(b"data\n") + b"hidden")
    # The stream ends exactly where one read of the archive does.
    whole = bytes(range(256)) * 256
    exact = whole[: READ - 10 - (len(deflated(whole[: READ - 10], 0)) - READ)]
    assert len(deflated(exact, 0)) == READ
    packed = deflated(exact, 0) + b"hidden"
    yield second("data behind the stream and the read", "has data behind its end", packed=packed, data=exact)
    yield second("nothing in the stream", "ends too early", packed=b"")
    wide = extra(1, struct.pack("<QQ", 5, 5))
    field = "has a damaged ZIP64 field"
    full = {"unpacked": 0xFFFFFFFF}
    yield second("no ZIP64 field", field, central=full)
    yield second("short ZIP64 field", field, central=full, central_extra=extra(1, b"\5\0\0\0"))
    yield second("long ZIP64 field", field, central=full, central_extra=wide)
    other64 = extra(1, struct.pack("<Q", 6))
    yield second("other size in ZIP64", other, central=full, central_extra=other64)
    yield second("two ZIP64 fields", "has damaged extra fields", central=full, central_extra=other64 * 2)
    yield second("cut extra field", "has damaged extra fields", central_extra=b"\1\0\xff\0")
    yield second("rest behind extra fields", "has damaged extra fields", local_extra=extra(9, b"") + b"\0")
    behind = "has another size or checksum behind its data"
    yield second("wrong descriptor", behind, descriptor=(4, True), descriptor_values=(1, 7, 5))
    yield second(
        "wrong wide descriptor", behind, descriptor=(8, False), descriptor_values=(zlib.crc32(b"data\n"), 7, 6)
    )
    yield second("no descriptor", "has no proper data descriptor", flags=8)
    wrong = {"crc": 7}
    yield second("header against descriptor", other, descriptor=(4, True), local=wrong)


def bombs() -> Iterator[Case]:
    zeros = bytes(24 * 1024**2)
    bomb = Member("bomb", zeros)
    yield Case("bomb", build([GOOD, bomb]), "entry 2 unpacks to more than 100 times its size")
    part = Member("p", bytes(3 * 1024**2), packed=(packed := deflated(bytes(3 * 1024**2))))
    parts = [Member(f"p{index}", part.data, packed=packed) for index in range(6)]
    yield Case("bomb in parts", build(parts), "it unpacks to more than 100 times its size")
    huge = {"unpacked": GIB, "packed": 5}
    stored = [Member(f"h{index}", method=0, local=huge, central=huge) for index in range(3)]
    yield Case("stored with two sizes, huge", build(stored), "entry 1 is stored as it is")
    wide = {"unpacked": 0xFFFFFFFF}
    terabytes = extra(1, struct.pack("<Q", 2**50))
    hidden = Member("x", central=wide, central_extra=terabytes, descriptor=(8, True))
    yield Case("petabyte", build([hidden]), "it unpacks to more than 2 GiB")
    negative = Member("x", central=wide, central_extra=extra(1, b"\xff" * 8), descriptor=(8, True))
    yield Case("size of all ones", build([negative]), "it unpacks to more than 2 GiB")
    both = {"unpacked": 10}
    liar = Member("second.txt", bytes(8 * 1024**2), local=both, central=both)
    yield Case("declares little, has much", build([GOOD, liar]), "entry 2 is larger than it says")
    many = [Member(f"{index}", b"", method=0) for index in range(4097)]
    yield Case("many entries", build(many), "more than 4096 entries")
    wordy = [Member(f"{index}", b"", method=0, comment=b"x" * 65000) for index in range(130)]
    yield Case("large directory", build(wordy), "its directory is too large")


def overlaps() -> Iterator[Case]:
    message = "overlaps another entry or the directory"
    kernel = Member("kernel", b"x" * 40, method=0)
    yield Case("two rows, one header", build([kernel, Member("kernel2", b"x" * 40, method=0, central={"offset": 0})]),
               "has another name in its header")  # fmt: skip
    # The first entry's data holds the header of the second (stored in stored): its rows say so, all sizes are right.
    inner = build([Member("inner", b"inner", method=0)])[:-68]
    holder = Member("outer", inner, method=0)
    nested = Member("inner", b"inner", method=0, central={"offset": 35})
    archive = build([holder, nested])
    # Without the second's own bytes, the directory comes directly behind the first.
    own = 30 + 5 + 5
    start = struct.unpack("<I", archive[-6:-2])[0]
    nested_only = archive[: start - own] + archive[start:-6] + struct.pack("<I", start - own) + archive[-2:]
    yield Case("header inside data", nested_only, message)
    yield Case("header inside data, own bytes left", archive, message)
    longer = {"packed": 60, "unpacked": 60}
    yield Case("data into the next", build([Member("a", method=0, local=longer, central=longer), kernel]), message)
    yield Case("data into the directory", build([GOOD, Member("a", method=0, local=longer, central=longer)]), message)
    yield second("header outside", "lies outside of the archive", central={"offset": 0xFFFFFF})
    yield second("header in the directory", "has no header where", central={"offset": 9})
    yield second("name beyond the entries", "lies outside of the archive", local={"name": 60000})
    full = {"offset": 0xFFFFFFFF}
    far = extra(1, b"\xff" * 8)
    yield second("header at the end of the world", "lies outside of the archive", central=full, central_extra=far)
    yield Case("bytes between", build([GOOD, Member("b", before=b"hidden")]), "bytes before entry 2 that belong to no")
    yield Case(
        "bytes behind data", build([Member("b", after=b"hidden"), GOOD]), "bytes before entry 2 that belong to no"
    )
    yield Case(
        "bytes behind all", build([GOOD, Member("b", after=b"hidden")]), "bytes before its directory that belong"
    )
    yield Case("entry that is not listed", build([GOOD, Member("b")], between=inner), "bytes before its directory that")


def ends() -> Iterator[Case]:
    moved = "its directory does not lie where its end says"
    two = "it has a second end record"
    part = "it is one of several parts"
    valid = build([GOOD])
    yield Case("script before", build([GOOD], prefix=b"#!/bin/sh\n"), "bytes before entry 1 that belong to no entry")
    yield Case("unannounced script before", build([GOOD], prefix=b"#!/bin/sh\n", shift=False), moved)
    yield Case("bytes behind", build([GOOD], suffix=b"hidden"), "it does not end where its end record says")
    yield Case("bytes behind the directory", build([GOOD], before_end=b"hidden"), moved)
    signature = b"PK\5\5" + struct.pack("<H", 4) + b"sign"
    yield Case("signature behind the directory", build([GOOD], before_end=signature), moved)
    yield Case("archive in the comment", build([GOOD], comment=valid), two)
    yield Case("end in the comment", build([GOOD], comment=b"PK\5\6 and more that is no end"), two)
    yield Case("two archives", valid + valid, moved)
    yield Case("comment is cut", build([GOOD], comment=b"comment")[:-3], "it does not end where its end record says")
    yield Case("cut in the end record", valid[:-5], "it does not end where its end record says")
    yield Case("cut in the directory", valid[:-30], "it has no end record")
    yield Case("empty file", b"", "it has no end record")
    yield Case("HTML", b"<!doctype html><title>Sign in</title>" * 50, "it has no end record")
    yield Case("tar", b"ustar".ljust(10240, b"\0"), "it has no end record")
    yield Case("no entries", build([]), "it holds no files", "incomplete")
    yield Case("folders only", build([Member("a/", b"", mode=0o40755)]), "it holds no files", "incomplete")
    yield Case("several disks", build([GOOD], end={"disk": 1}), part)
    yield Case("directory on another disk", build([GOOD], end={"directory_disk": 1}), part)
    yield Case("not all here", build([GOOD, Member("b")], end={"here": 1}), part)
    yield second("entry on another disk", "", central={"disk": 1})._replace(message=part)
    yield Case("fewer than listed", build([GOOD, Member("b")], count=1), "its directory holds more than it says")
    yield Case("more than listed", build([GOOD], count=2), "its directory is damaged at entry 2")
    yield Case("directory elsewhere", build([GOOD], end={"offset": 3}), moved)
    yield Case("smaller directory", build([GOOD], end={"size": 20}), moved)
    yield Case("row without signature", build([Member("a", central={"signature": 1})]), "damaged at entry 1")
    yield Case("row that is too long", build([Member("a", central={"comment": 9})]), "damaged at entry 1")
    yield Case("header without signature", build([Member("a", local={"signature": 1})]), "entry 1 has no header where")
    yield Case("ZIP64 elsewhere", build([GOOD], end64={}, locator={"offset": 1}), "its ZIP64 end record is not where")
    locator = b"PK\6\7".ljust(20, b"\0")
    yield second("ZIP64 in an entry's comment", "", comment=bytes(56) + locator)._replace(
        message="its ZIP64 end record is not where"
    )
    yield Case("ZIP64 end on another disk", build([GOOD], end64={}, locator={"disk": 1}), part)
    yield Case("ZIP64 on disks", build([GOOD], end64={}, locator={"disks": 2}), part)
    yield Case("ZIP64 with more in it", build([GOOD], end64={"length": 99}), "its ZIP64 end record is damaged")
    yield Case("ZIP64 without signature", build([GOOD], end64={"signature": 1}), "its ZIP64 end record is damaged")
    yield Case("ends contradict", build([GOOD], end64={"total": 7, "here": 7}, end={"total": 1, "here": 1}),
               "its two end records contradict")  # fmt: skip
    yield Case("many in ZIP64", build([GOOD], end64={"total": 2**40, "here": 2**40}), "more than 4096 entries")
    yield Case("huge ZIP64 directory", build([GOOD], end64={"size": 2**63}), "its directory is too large")
    yield Case("far ZIP64 directory", build([GOOD], end64={"offset": 2**64 - 1}), moved)
    everything = {"here": 0xFFFF, "total": 0xFFFF, "size": 0xFFFFFFFF, "offset": 0xFFFFFFFF}
    yield Case("ZIP64 is missing", build([GOOD], end=everything), "more than 4096 entries")


CASES = [
    case for make in (paths, types, clashes, kinds, sizes, bombs, overlaps, ends) for case in make()
]  # fmt: skip


def everything_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below a folder, with its mode and contents."""
    found = {}
    for path in folder.rglob("*"):
        state = path.lstat()
        found[str(path.relative_to(folder))] = (state.st_mode, path.read_bytes() if path.is_file() else b"")
    return found


@pytest.fixture
def yard(tmp_path: Path) -> Path:
    """A folder with things that must stay as they are, around a staging folder."""
    (tmp_path / "outside.txt").write_text("canary")
    (tmp_path / "yard").mkdir()
    (tmp_path / "yard" / "outside.txt").write_text("canary")
    (tmp_path / "yard" / "staging").mkdir()
    return tmp_path


def refused(yard: Path, archive: bytes, *, required: tuple[str, ...] = ()) -> ProvisioningError:
    path = yard / "archive.zip"
    path.write_bytes(archive)
    before = everything_in(yard)
    with pytest.raises(ProvisioningError) as caught:
        unpack(path, yard / "yard" / "staging", required=required)
    assert everything_in(yard) == before
    return caught.value


def test_the_table_is_long_enough_and_has_no_case_twice() -> None:
    assert len(CASES) >= 40
    assert len({case.what for case in CASES}) == len(CASES)
    assert len({case.archive for case in CASES}) == len(CASES)


@pytest.mark.requirement("A-051")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_hostile_archive_is_refused_and_nothing_is_left(case: Case, yard: Path) -> None:
    error = refused(yard, case.archive)
    assert case.message in error.message
    assert (error.stage, error.reason) == ("archive", case.reason)


@pytest.mark.parametrize(
    "member",
    [
        Member("../zq9marker"),
        Member("zq9marker\x1b[2J"),
        Member("zq9marker", mode=stat.S_IFLNK | 0o777, data=b"/etc/zq9marker"),
        Member("zq9marker", local={"crc": 1}, central={"crc": 1}),
        Member("zq9marker", local_name="zq9marker2"),
    ],
)
def test_no_name_out_of_an_archive_is_in_a_message(member: Member, yard: Path) -> None:
    error = refused(yard, build([GOOD, member]))
    assert "zq9marker" not in error.message
    assert "entry 2" in error.message


def test_a_cut_at_any_byte_is_refused(yard: Path) -> None:
    whole = build([GOOD, Member("b", b"b" * 50, method=0), Member("c", descriptor=(4, True))], comment=b"words")
    for length in range(len(whole)):
        refused(yard, whole[:length])


@pytest.mark.skipif(os.name == "nt", reason="a file with a hole")
def test_a_huge_archive_is_refused_unread(yard: Path) -> None:
    path = yard / "huge.zip"
    with path.open("wb") as file:
        file.truncate(2 * GIB + 1)
    with pytest.raises(ProvisioningError, match="it is larger than 2 GiB"):
        unpack(path, yard / "yard" / "staging")

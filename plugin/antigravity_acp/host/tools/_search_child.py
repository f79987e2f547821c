"""The search process: reads one request from stdin, writes matches to stdout, ends.

Owns: nothing that outlives it. It uses the standard library only and is run as a script, so that its start costs
milliseconds. Its bounds come with the request; its time is bounded by the parent, which ends it.
"""

import fnmatch
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

#: Exit code for a pattern that is no regular expression.
BAD_PATTERN = 3
#: Bytes that are looked at to tell a binary file.
_SNIFF = 8192
#: Characters of one line that are shown.
_SHOWN = 300


def files(start: str, limit: int) -> Iterator[str | None]:
    """Regular files below a path, in a stable order; links are not followed. ``None`` where ``limit`` cut the list."""
    if os.path.isfile(start):
        yield start
        return
    count = 0
    for folder, folders, names in os.walk(start):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            count += 1
            if count > limit:
                yield None
                return
            yield path


def text_of(path: str, limit: int) -> str | None:
    """The text of a file; ``None`` when it is binary, too large or cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except OSError:
        return None
    if len(data) > limit or b"\0" in data[:_SNIFF]:
        return None
    return data.decode("utf-8", "replace")


def matches(pattern: re.Pattern[str], request: dict[str, Any]) -> Iterator[str]:
    """One line of output for each line that matches."""
    glob = request["glob"]
    for path in files(request["start"], request["max_files"]):
        if path is None:
            yield f"[cut: only the first {request['max_files']} files were searched; narrow the path]"
            return
        shown = os.path.relpath(path, request["root"])
        if glob and not (fnmatch.fnmatch(os.path.basename(path), glob) or fnmatch.fnmatch(shown, glob)):
            continue
        for number, line in enumerate((text_of(path, request["max_file_bytes"]) or "").split("\n"), start=1):
            found = pattern.search(line)
            if found is None:
                continue
            # A long line is shown around its match.
            first = max(0, min(found.start() - _SHOWN // 3, len(line) - _SHOWN))
            piece = line[first : first + _SHOWN].rstrip("\r")
            marks = ("…" if first else "", "…" if first + _SHOWN < len(line) else "")
            yield f"{shown}:{number}: {marks[0]}{piece}{marks[1]}"


def main() -> None:
    """Answer the request on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    try:
        pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError):
        sys.exit(BAD_PATTERN)
    size = 0
    for count, line in enumerate(matches(pattern, request)):
        data = line.encode("utf-8", "replace") + b"\n"
        size += len(data)
        if count == request["max_matches"] or size > request["max_bytes"]:
            sys.stdout.buffer.write(b"[cut: there are more matches; narrow the pattern or the path]\n")
            break
        sys.stdout.buffer.write(data)


if __name__ == "__main__":
    main()

"""A program with relatives, for tests of how processes end. Plain stdlib; says who they are in one JSON line on stdout.

Argument: a JSON object with ``kinds`` (which relatives it has), ``ignore_eof`` and ``ignore_term``. The kinds:

``group``     a child in the same group
``setsid``    a child in a session of its own
``subgroup``  a child in a group of its own, as a shell with job control makes them
``daemon``    a grandchild in a session of its own whose parent has ended
``stranger``  the same without anything of the environment
``family``    a child in a session of its own with a child in another one

Every relative holds stdout and stderr, ignores SIGTERM and SIGHUP and sleeps. The program itself then reads lines:
``exit N`` ends it, the end of its input too unless it ignores that.
"""

import json
import os
import signal
import sys
import time


def sleep() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def fork(write: int, *, session: bool = False, group: bool = False, then=sleep) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        if session:
            os.setsid()
        if group:
            os.setpgid(0, 0)
        then()
    finally:
        os._exit(0)


def start(kind: str) -> list[int]:
    read, write = os.pipe()

    def told() -> None:
        os.write(write, b"%d\n" % os.getpid())

    def relative() -> None:
        told()
        sleep()

    def stranger() -> None:
        told()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.execve("/bin/sleep", ["sleep", "600"], {})

    def parent_of_another() -> None:
        told()
        fork(write, session=True, then=relative)
        sleep()

    count = 1
    if kind == "daemon":
        os.waitpid(fork(write, session=True, then=lambda: fork(write, then=relative)), 0)
    elif kind == "stranger":
        os.waitpid(fork(write, session=True, then=lambda: fork(write, then=stranger)), 0)
    elif kind == "family":
        count = 2
        fork(write, session=True, then=parent_of_another)
    else:
        fork(write, session=kind == "setsid", group=kind == "subgroup", then=relative)
    found = b""
    while found.count(b"\n") < count:
        found += os.read(read, 100)
    os.close(read)
    os.close(write)
    return [int(pid) for pid in found.split()]


def main() -> None:
    options = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    if options.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    relatives = {kind: start(kind) for kind in options.get("kinds", [])}
    sys.stdout.write(json.dumps(relatives) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        word, _, number = line.partition(" ")
        if word == "exit":
            sys.stdout.flush()
            os._exit(int(number))
    if options.get("ignore_eof"):
        time.sleep(600)


if __name__ == "__main__":
    main()

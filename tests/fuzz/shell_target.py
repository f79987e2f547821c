"""Coverage-guided fuzzing of the shell reader and the floor: `python tests/fuzz/shell_target.py -runs=10000`.

Run as a program of its own (atheris takes over the process). Any input: the reader and the floor do not raise, stay
within 50 ms of processor time for each KiB (after a first call), answer the same twice, and a policy that allows one
harmless command never allows a line in which another command was seen.
"""

import sys
import time

import atheris

with atheris.instrument_imports(include=["antigravity_control"]):
    from antigravity_control import Policy, Request, Source
    from antigravity_control.floor import check
    from antigravity_control.shell import read_line

SECONDS_A_KIB = 0.05
#: Instrumented code is several times slower than what is shipped.
INSTRUMENTED = 8
POLICY = Policy.compile([Source("plugin", {"permissions": {"allow": ["command(echo)"]}})], workspace="/w")


def examine(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    began = time.process_time()
    line = read_line(text)
    hit = check(line)
    spent = time.process_time() - began
    limit = SECONDS_A_KIB * INSTRUMENTED * max(1.0, len(text.encode("utf-8", "surrogatepass")) / 1024)
    if spent > limit:
        again = time.process_time()
        check(read_line(text))
        assert time.process_time() - again <= limit, f"{spent:.2f} s"
    assert read_line(text) == line
    assert check(line) == hit
    if POLICY.decide(Request("command", text)).decision == "allow":
        assert hit is None
        names = {unit.name for unit in line.units if unit.role == "command"}
        assert names <= {"echo"}, names
        assert line.understood


if __name__ == "__main__":
    atheris.Setup(sys.argv, examine)
    atheris.Fuzz()

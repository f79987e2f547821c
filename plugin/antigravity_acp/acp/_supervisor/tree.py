"""Which processes belong to an agent, and whether a process is still the one that was meant.

Owns: looking. A process belongs by descent, group or session, or because it inherited the agent's temporary directory:
no stranger has that path for its own. On Linux everything is read from ``/proc``, elsewhere from ``ps``.
Never: trusts a process id alone; ids are used again.
"""

import os
import time

#: Whether ``/proc`` is that of Linux. A constant of the module, so that tests can make it look at ``ps``.
PROC = os.path.isdir("/proc/self/task")
#: Seconds for one ``ps``, and between two looks at processes that are being killed.
_PS_S = 5.0
_LOOK_S = 0.01
_KILL = 9
_VARIABLES = (b"TMPDIR=", b"TMP=", b"TEMP=")

#: Process, its parent, its group, its session.
Row = tuple[int, int, int, int]


# ---- identity -------------------------------------------------------------------------------------------------------
def place() -> str:
    """Where process ids of this process mean what they say: the boot and the namespace. Empty where neither is known.

    Start times on Linux count from the boot, so they say nothing in another one.
    """
    if not PROC:
        return ""
    boot = _read("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{boot} {space}"


def stamp(pid: int) -> str:
    """When a living process started, in the system's own words and only ever compared; empty when it has ended.

    Blocks for some milliseconds where ``ps`` has to be asked.
    """
    if not PROC:
        rows = _ps("-p", str(pid), "-o", "stat=,lstart=")
        state, _, began = rows[0].strip().partition(b" ") if rows else (b"Z", b"", b"")
        return "" if state.startswith(b"Z") else began.decode("ascii", "replace").strip()
    fields = _fields(pid)
    return "" if fields is None else fields[19].decode("ascii")


# ---- membership -----------------------------------------------------------------------------------------------------
def living() -> list[Row]:
    """Every process that lives, as far as this user may see. Zombies do not."""
    if not PROC:
        return _from_ps()
    rows = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _fields(int(name))
            if fields is not None:
                rows.append((int(name), int(fields[1]), int(fields[2]), int(fields[3])))
    return rows


def below(root: int, rows: list[Row]) -> set[int]:
    """Descendants of a process by the parent links that exist now."""
    children: dict[int, list[int]] = {}
    for pid, parent, _, _ in rows:
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def related(leader: int, rows: list[Row]) -> set[int]:
    """The group and the session that a leader made, and the descendants of all these."""
    found = {pid for pid, _, group, session in rows if leader in (pid, group, session)}
    for pid in tuple(found):
        found |= below(pid, rows)
    return found


def marked(tmp: bytes) -> set[int]:
    """Living processes whose environment names ``tmp`` as the directory for temporary files."""
    wanted = {variable + tmp for variable in _VARIABLES}
    if not PROC:
        return _marked_by_ps(wanted)
    own = os.getpid()
    found = set()
    for name in os.listdir("/proc"):
        # A zombie's environment is empty, so the dead are not counted.
        if name.isdigit() and int(name) != own and not wanted.isdisjoint(_read(f"/proc/{name}/environ").split(b"\0")):
            found.add(int(name))
    return found


# ---- ending ---------------------------------------------------------------------------------------------------------
def kill(pids: set[int]) -> None:
    """SIGKILL for each; those that are gone are no fault."""
    for pid in pids:
        try:  # noqa: SIM105 - contextlib takes longer to import than the whole of this
            os.kill(pid, _KILL)
        except (ProcessLookupError, PermissionError):
            pass


def kill_group(leader: int, number: int = _KILL) -> None:
    """A signal for a group; that it is gone, or (macOS) holds only zombies, is no fault."""
    try:  # noqa: SIM105 - contextlib takes longer to import than the whole of this
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_tree(leader: int, began: str, tmp: bytes, seconds: float) -> bool:
    """Kill what belongs to an agent, again until nothing new shows up. Blocks, bounded.

    :param leader: its process id, 0 when it is not known. :param began: its :func:`stamp`; descent, group and session
        count only while the process with that id is still that one.
    :param tmp: its directory for temporary files.
    :returns: whether nothing of it is left.
    """
    deadline = time.monotonic() + seconds
    known: set[int] = set()
    while True:
        found = marked(tmp)
        if leader and began and stamp(leader) == began:
            # Descendants before the leader falls: then they can no longer be told from strangers.
            known = related(leader, living())
        elif known:
            # Its number stays taken while its group has members, so it is still ours a look later.
            known &= {pid for pid, _, group, session in living() if leader in (group, session)}
        found |= known
        found.discard(os.getpid())
        if not found:
            return True
        if time.monotonic() > deadline:
            return False
        kill(found)
        time.sleep(_LOOK_S)


# ---- reading --------------------------------------------------------------------------------------------------------
def _read(path: str) -> bytes:
    """A file of ``/proc``; empty when it is gone or not ours to read."""
    parts = []
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        while part := os.read(descriptor, 65536):
            parts.append(part)
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return b"".join(parts)


def _fields(pid: int) -> list[bytes] | None:
    # The command's name stands in parentheses and may itself hold some: what counts is after the last one.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return fields if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def _from_ps() -> list[Row]:
    rows = []
    for line in _ps("-A", "-o", "pid=,ppid=,pgid=,stat="):
        parts = line.split()
        if len(parts) == 4 and not parts[3].startswith(b"Z"):
            pid = int(parts[0])
            try:
                # The session column of macOS's `ps` is a kernel address.
                session = os.getsid(pid)
            except OSError:
                session = 0
            rows.append((pid, int(parts[1]), int(parts[2]), session))
    return rows


def _marked_by_ps(wanted: set[bytes]) -> set[int]:
    """macOS's ``ps -E`` puts the environment behind the command line, for one's own processes."""
    own = os.getpid()
    found = set()
    for line in _ps("-A", "-E", "-ww", "-o", "pid=,command="):
        pid, _, rest = line.strip().partition(b" ")
        # Paths of ours hold no space unless the system's temporary directory does; then nothing is found this way.
        if pid.isdigit() and int(pid) != own and not wanted.isdisjoint(rest.split(b" ")):
            found.add(int(pid))
    return found


def _ps(*arguments: str) -> list[bytes]:
    import subprocess

    # A start time must read the same however the host is set up.
    environment = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"}
    try:
        listed = subprocess.run(
            ["ps", *arguments],  # noqa: S607 - in /bin or /usr/bin, which is its whole PATH
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PS_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return listed.stdout.splitlines()

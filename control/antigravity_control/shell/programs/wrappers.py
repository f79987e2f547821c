"""Commands that run another command given in their arguments: the table, and how one layer is taken off.

Owns: option tables of wrappers. A wrapper whose options are not all known is still opened, but not surely.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..values.model import Piece, Word, without
from ..values.names import listed
from ..values.words import script_of
from .env_split import split
from .options import Options, read_options

_SPLITS = frozenset({"-S", "--split-string"})
_VARIABLE = re.compile(r"(\$\{[A-Za-z_]\w*\})")


@dataclass(frozen=True, slots=True)
class Wrapper:
    takes: frozenset[str]
    flags: frozenset[str] | None
    skip: int = 0
    """Operands before the command."""
    query: frozenset[str] = frozenset()
    """Options with which nothing is run."""
    script: frozenset[str] = frozenset()
    """Options whose operand is text for a shell."""
    joins: bool = False
    """The command's words are joined and given to a shell."""
    assigns: bool = False
    """``NAME=value`` may stand before the command."""
    transparent: bool = False
    """A rule for the inner command suffices."""
    numeric: bool = False
    folder: frozenset[str] = frozenset()
    """Options whose operand is the folder the command runs in."""
    late: bool = False
    """Whether ``script`` options may stand after operands as well."""


def _wrapper(
    takes: str = "", flags: str | None = None, *, query: str = "", script: str = "", folder: str = "", skip: int = 0,
    joins: bool = False, assigns: bool = False, transparent: bool = False, numeric: bool = False, late: bool = False,
) -> Wrapper:  # fmt: skip
    known = None if flags is None else listed(flags) | listed(query) | {"--help", "--version"}
    return Wrapper(
        listed(takes) | listed(script) | listed(folder), known, skip, listed(query), listed(script), joins, assigns,
        transparent, numeric, listed(folder), late,
    )  # fmt: skip


WRAPPERS: dict[str, Wrapper] = {
    "env": _wrapper(
        "-u --unset -S --split-string -a --argv0",
        "-i --ignore-environment -0 --null -v --debug --block-signal --default-signal --ignore-signal"
        " --list-signal-handling",
        folder="-C --chdir", assigns=True, transparent=True,
    ),
    "nice": _wrapper("-n --adjustment", "", transparent=True, numeric=True),
    "nohup": _wrapper("", "", transparent=True),
    "timeout": _wrapper("-s --signal -k --kill-after", "-v --verbose -f --foreground -p --preserve-status", skip=1,
                        transparent=True),
    "sudo": _wrapper(
        "-u --user -g --group -h --host -p --prompt -C --close-from -c -r --role -t --type -T --command-timeout -U"
        " --other-user -R --chroot",
        "-A --askpass -b --background -B --bell -E --preserve-env -H --set-home -i --login -k --reset-timestamp -n"
        " --non-interactive -N --no-update -P --preserve-groups -s --shell -S --stdin",
        query="-l --list -e --edit -v --validate -V --version -K --remove-timestamp", folder="-D --chdir", assigns=True,
    ),
    "doas": _wrapper("-u -C -a", "-n -s -L"),
    "pkexec": _wrapper("--user", "--disable-internal-agent --keep-cwd"),
    "gosu": _wrapper("", "", skip=1),
    "su-exec": _wrapper("", "", skip=1),
    "command": _wrapper("", "-p", query="-v -V"),
    "builtin": _wrapper("", ""),
    "exec": _wrapper("-a", "-c -l"),
    "time": _wrapper("-f --format -o --output", "-p --portability -a --append -v --verbose -q --quiet -l -h"),
    "stdbuf": _wrapper("-i --input -o --output -e --error", ""),
    "ionice": _wrapper("-c --class -n --classdata -p --pid -P --pgid -u --uid", "-t --ignore"),
    "chrt": _wrapper("-T --sched-runtime -P --sched-period -D --sched-deadline -p --pid",
                     "-a -b -d -f -i -m -o -r -R -v --batch --deadline --fifo --idle --other --rr", skip=1),
    "taskset": _wrapper("", "-a -c -p --all-tasks --cpu-list --pid", skip=1),
    "setsid": _wrapper("", "-c --ctty -f --fork -w --wait"),
    "chroot": _wrapper("--groups --userspec", "--skip-chdir", skip=1),
    "flock": _wrapper("-w --timeout --wait -E --conflict-exit-code",
                      "-s --shared -x --exclusive -e -u --unlock -n --nonblock --nb -o --close -F --no-fork --verbose",
                      skip=1, script="-c --command"),
    "watch": _wrapper("-n --interval -q --equexit -s --shotsdir",
                      "-b --beep -c --color -C --no-color -d --differences -e --errexit -g --chgexit -p --precise -r"
                      " --no-rerun -t --no-title -w --no-wrap -x --exec", joins=True),
    "script": _wrapper("-E --echo -I --log-in -O --log-out -B --log-io -T --log-timing -m --logging-format -o"
                       " --output-limit", "-a --append -e --return -f --flush -q --quiet -t --force",
                       script="-c --command", skip=99, late=True),
    "busybox": _wrapper("", "", query="--list --list-full --install"),
    "toybox": _wrapper("", "", query="--long"),
    "xargs": _wrapper(
        "-I -n --max-args -P --max-procs -L --max-lines -s --max-chars -d --delimiter -E -a --arg-file"
        " --process-slot-var -J -R -S",
        "-0 --null -r --no-run-if-empty -t --verbose -p --interactive -x --exit -o --open-tty -i -l -e --replace --eof"
        " --show-limits",
    ),
    "parallel": _wrapper(
        "-j --jobs -I -S --sshlogin -a --arg-file -N -n --max-args -L --max-lines -C --colsep -d --delimiter --tmpdir"
        " --joblog --results --retries --delay --load --memfree --timeout --workdir --wd --shuf --tagstring",
        "-0 --null -k --keep-order -v --verbose -q --quote --dry-run --dryrun --eta --bar --progress -u --ungroup -X -m"
        " --line-buffer --lb --halt --no-run-if-empty -r --will-cite --tag --pipe", joins=True),
    "strace": _wrapper("-a -b -e -I -o -O -p -P -s -S -u -E -X -U --trace --output --attach --string-limit",
                       "-c -C -d -D -f -ff -F -h -i -k -n -N -q -qq -r -t -tt -ttt -T -v -V -w -x -xx -y -yy -z -Z"),
    "ltrace": _wrapper("-a -A -D -e -F -l -n -o -p -s -u -w -x", "-b -c -C -f -h -i -L -r -S -t -T -V"),
    "valgrind": _wrapper("", "-q --quiet -v --verbose -d"),
    "gdb": _wrapper("-ex -iex -x -p -c -d -cd --command --eval-command --pid --core",
                    "--args -args -q --quiet --silent -batch --batch -nx --nx -n -nh -tui --tui -write"),
    "unshare": _wrapper("-S --setuid -G --setgid -R --root --propagation --setgroups",
                        "-m -u -i -n -p -U -C -T -f -r -c --mount --uts --ipc --net --pid --user --cgroup --time --fork"
                        " --map-root-user --map-current-user --mount-proc --kill-child --keep-caps", folder="-w --wd"),
    "nsenter": _wrapper("-t --target -S --setuid -G --setgid", None, folder="-w --wd"),
    "setpriv": _wrapper("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --pdeathsig",
                        "--clear-groups --keep-groups --init-groups --no-new-privs --reset-env"),
    "runuser": _wrapper("-u --user -g --group -G --supp-group -s --shell -w", "-l --login -p -m -f --fast -P --pty",
                        script="-c --command", late=True),
    "prlimit": _wrapper("-p --pid -o --output", None),
    "numactl": _wrapper("-C -N -m -p -i --physcpubind --cpunodebind --membind --preferred --interleave", None),
    "systemd-run": _wrapper("-H --host -M --machine -p --property -u --unit --description --slice --uid --gid --nice"
                            " --on-active --on-boot --on-calendar -E --setenv --service-type",
                            "--user --system --scope -t --pty -P --pipe -q --quiet --wait -G --collect -d --same-dir"
                            " --no-block -r --remain-after-exit -S --shell --no-ask-password",
                            folder="--working-directory"),
    "systemd-inhibit": _wrapper("--what --who --why --mode", "--list --no-pager --no-legend"),
    "dbus-run-session": _wrapper("--config-file --dbus-daemon", ""),
    "xvfb-run": _wrapper("-e --error-file -f --auth-file -n --server-num -p --xauth-protocol -s --server-args",
                         "-a --auto-servernum -l --listen-tcp"),
    "fakeroot": _wrapper("-l --lib -f --faked -s -i -b", "-u --unknown-is-real"),
    "firejail": _wrapper("", None),
    "bwrap": _wrapper("", None),
    "proot": _wrapper("", None),
    "caffeinate": _wrapper("-t -w", "-d -i -m -s -u"),
    "arch": _wrapper("-e -d", None),
    "setarch": _wrapper("", None, skip=1),
    "linux32": _wrapper("", None),
    "linux64": _wrapper("", None),
    "unbuffer": _wrapper("", "-p"),
    "rlwrap": _wrapper("", None),
    "tini": _wrapper("-e -p", "-s -g -v -w"),
    "dumb-init": _wrapper("-r --rewrite", "-c -v --single-child --verbose"),
    "catchsegv": _wrapper("", ""),
    "cgexec": _wrapper("-g", "--sticky"),
    "torsocks": _wrapper("", None),
    "proxychains": _wrapper("-f", "-q"),
    "proxychains4": _wrapper("-f", "-q"),
    "lockf": _wrapper("-t", "-k -n -s -w", skip=1),
    "ssh-agent": _wrapper("-a -E -P -t -O", "-c -D -d -k -s"),
    "aa-exec": _wrapper("-p --profile -n --namespace", "-i -d -v --immediate --debug --verbose"),
    "direnv": _wrapper("", None, skip=2),
    "nix-shell": _wrapper("-p --packages -A --attr -I", None, script="--run --command", skip=99),
    "start-stop-daemon": _wrapper("", None, skip=99),
    "hyperfine": _wrapper("-w --warmup -r --runs -m --min-runs -M --max-runs --export-json --export-markdown",
                          "-i --ignore-failure", script="-p --prepare -s --setup -c --cleanup", joins=True),
    "chpst": _wrapper("-u -U -b -/ -n -l -L -m -d -o -p -f -c -r -t -e", "-P -0 -1 -2"),
    "setuidgid": _wrapper("", "", skip=1),
    "envdir": _wrapper("", "", skip=1),
    "entr": _wrapper("", "-a -c -d -n -p -r -s -z"),
    "coproc": _wrapper("", ""),
    "noglob": _wrapper("", ""),
    "nocorrect": _wrapper("", ""),
    "doasedit": _wrapper("", "", skip=99),
}  # fmt: skip
ALIASES = {"gtimeout": "timeout", "genv": "env", "gnice": "nice", "gnohup": "nohup", "gstdbuf": "stdbuf",
           "gtime": "time", "gxargs": "xargs", "gchroot": "chroot", "please": "sudo", "sudo-rs": "sudo",
           "busybox-static": "busybox", "busybox.static": "busybox"}  # fmt: skip


@dataclass(slots=True)
class Layer:
    """What one wrapper holds. ``inner`` is the command it surely runs, ``maybe`` others that it may run, ``scripts``
    texts it gives to a shell."""

    inner: list[Word] = field(default_factory=list)
    maybe: list[list[Word]] = field(default_factory=list)
    scripts: list[Word] = field(default_factory=list)
    assignments: dict[str, tuple[Piece, ...] | None] = field(default_factory=dict)
    options: Options = field(default_factory=lambda: Options(0))
    cwd: str | None = None
    transparent: bool = False
    sure: bool = True


def unwrap(name: str, argv: Sequence[Word]) -> Layer | None:
    """One layer off: ``argv`` is the whole command, ``name`` its folded name. None when it is no wrapper."""
    wrapper = WRAPPERS.get(ALIASES.get(name, name))
    if wrapper is None:
        return None
    rest = list(argv[1:])
    layer = Layer(transparent=wrapper.transparent)
    loose = False
    splits = _SPLITS if wrapper.takes >= _SPLITS else frozenset()
    for _ in range(8):
        rest = _dashes(rest) if splits else rest
        options = read_options(rest, wrapper.takes, wrapper.flags, numeric=wrapper.numeric, until=splits)
        layer.options.seen.extend(options.seen)
        layer.sure = layer.sure and options.sure
        loose = options.loose
        rest = rest[options.first :]
        strings = options.values(*splits)
        if not strings:
            rest = rest[1:] if splits and rest and rest[0].text == "-" else rest
            break
        rest = [word for value in strings for word in _split(value)] + rest
    layer.scripts = layer.options.values(*wrapper.script) if wrapper.script else []
    folders = layer.options.values(*wrapper.folder) if wrapper.folder else []
    layer.cwd = folders[-1].text if folders and folders[-1].known else None
    if wrapper.query and layer.options.has(*wrapper.query):
        return layer
    operands = rest
    rest = rest[wrapper.skip :]
    if wrapper.script and _later_script(operands if wrapper.late else rest[:1], operands, wrapper, layer):
        return layer
    if rest and rest[0].text.startswith("-"):
        # no command's name begins so: these are options after the operands
        layer.sure, loose = False, True
        rest = rest[_first_name(rest) :]
    if loose and wrapper.skip:
        layer.maybe.append(operands)
    while wrapper.assigns and rest and _assigned(rest[0]):
        name, pieces = assigned(rest.pop(0))
        layer.assignments[name] = pieces
    if loose:
        layer.maybe.append(rest[1:])
    if wrapper.joins and rest:
        layer.scripts.append(joined(rest))
        layer.maybe.append(rest)
    else:
        layer.inner = rest
    return layer


def _first_name(words: Sequence[Word]) -> int:
    return next((place for place, word in enumerate(words) if not word.text.startswith("-")), len(words))


def _later_script(places: list[Word], operands: list[Word], wrapper: Wrapper, layer: Layer) -> bool:
    """Takes the text of a ``-c`` that follows operands, as ``flock`` and ``script`` have it."""
    for word in places:
        name, equals, value = word.text.partition("=")
        if name in wrapper.script and layer.options.has("-u", "--user") is False:
            place = operands.index(word)
            layer.scripts.extend([Word.of(value, literal=word.literal)] if equals else operands[place + 1 : place + 2])
            return True
    return False


def joined(words: Sequence[Word]) -> Word:
    """Words with blanks between, as ``eval`` and remote shells join them."""
    text = " ".join(word.text for word in words)
    return Word(
        text, all(word.literal for word in words), text, tuple(piece for word in words for piece in word.pieces)
    )


def assigned(word: Word) -> tuple[str, tuple[Piece, ...] | None]:
    """The name and the value of ``NAME=value``, None where the value is not known."""
    name, _, _ = word.text.partition("=")
    return name, without(word.pieces, len(name) + 1) if word.known else None


def _assigned(word: Word) -> bool:
    return "=" in word.text and not word.text.startswith("=")


def _dashes(words: list[Word]) -> list[Word]:
    return [Word.of("-i"), *words[1:]] if words and words[0].text == "-" else words


def _split(value: Word) -> list[Word]:
    return [
        Word.of(text, literal=value.literal) if exact else Word(text, False, text, _expanded(text))
        for text, exact in split(script_of(value))
    ]


def _expanded(text: str) -> tuple[Piece, ...]:
    """``${NAME}`` as ``env -S`` fills it in."""
    pieces = [Piece("unknown" if place % 2 else "text", run) for place, run in enumerate(_VARIABLE.split(text)) if run]
    return tuple(Piece("home", "~") if piece.text == "${HOME}" else piece for piece in pieces)

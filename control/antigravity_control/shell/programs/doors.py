"""Which options of which tools run a program or write a file. Data for ``side_doors.py``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doors:
    """``runs`` starts a program, ``writes`` names a file to write. A name that ends in ``=`` counts only with a value
    attached. ``words`` are operands, ``starts`` beginnings of operands that open a door. ``stops`` are short options
    that take the rest of their cluster; ``cluster`` is False where ``-abc`` is one option. ``harmless`` are beginnings
    of values with which an option of ``runs`` runs nothing."""

    runs: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    starts: tuple[str, ...] = ()
    stops: frozenset[str] = frozenset()
    cluster: bool = True
    harmless: tuple[str, ...] = ()


NONE = Doors()


def doors_of(
    runs: str = "", writes: str = "", *, words: str = "", starts: str = "", stops: str = "", cluster: bool = True,
    harmless: str = "",
) -> Doors:  # fmt: skip
    return Doors(
        frozenset(runs.split()), frozenset(writes.split()), frozenset(words.split()), tuple(starts.split()),
        frozenset(stops), cluster, tuple(harmless.split()),
    )  # fmt: skip


_VI = doors_of("-c --cmd -S -s -u -U -l -ll", "-w -W -i --startuptime --listen", starts="+", stops="TrtV")
_CC = doors_of("-wrapper -fplugin= -specs= -specs -B -Xlinker", "-o", starts="-fplugin -specs -B -Wl,-plugin",
             cluster=False)  # fmt: skip
_WRITES_O = doors_of("", "-o --output")
DOORS: dict[str, Doors] = {
    "tar": doors_of("--to-command --checkpoint-action --use-compress-program -I --info-script --new-volume-script -F"
                  " --rsh-command --rmt-command", "--index-file --volno-file --one-top-level", stops="fCTXbgKLNV"),
    "rg": doors_of("--pre --hostname-bin"),
    "fd": doors_of("-x --exec -X --exec-batch"),
    "fdfind": doors_of("-x --exec -X --exec-batch"),
    "find": doors_of("-exec -execdir -ok -okdir", "-fprint -fprint0 -fprintf -fls", words="-delete", cluster=False),
    "bfs": doors_of("-exec -execdir -ok -okdir", "-fprint -fprint0 -fprintf -fls", words="-delete", cluster=False),
    "sort": doors_of("--compress-program", "-o --output", stops="ktST"),
    "rsync": doors_of("-e --rsh --rsync-path --password-command", "--log-file --write-batch --only-write-batch"
                      " --partial-dir --backup-dir --temp-dir", stops="BTMf"),
    "vim": _VI, "vi": _VI, "nvim": _VI, "view": _VI, "ex": _VI, "gvim": _VI, "vimdiff": _VI,
    "emacs": doors_of("--eval -eval -l --load -f --funcall --execute", cluster=False),
    "less": doors_of("-k --lesskey-file --lesskey-content --lesskey-src",
                     "-o -O --log-file --LOG-FILE", stops="pPjtTbhxyz"),
    "more": doors_of(starts="+"),
    "man": doors_of("-P --pager -H --html -C --config-file -X --gxditview --preprocessor",
                    stops="LSsMmrReEpT"),
    "zip": doors_of("-TT --unzip-command", "-O --out --output-file -lf --logfile-path", stops="xibnt"),
    "curl": doors_of("-K --config --engine",
                   "-o --output --output-dir -D"
                   " --dump-header -c --cookie-jar --trace --trace-ascii --stderr --libcurl --etag-save --hsts"
                   " --alt-svc", stops="XHdueAbFmrTxyYzCEtUwPQh"),
    "wget": doors_of("--use-askpass -e --execute --config", "-O --output-document -o --output-file -a --append-output"
                   " -P --directory-prefix --save-cookies --warc-file --hsts-file --rejected-log",
                   stops="tTwQUlARDIXi"),
    "gcc": _CC, "g++": _CC, "cc": _CC, "c++": _CC, "clang": _CC, "clang++": _CC,
    "ld": doors_of("-plugin --plugin", "-o", cluster=False),
    "make": doors_of("--eval -E", starts="SHELL= .SHELLFLAGS= --eval", cluster=False),
    "gmake": doors_of("--eval -E", starts="SHELL= .SHELLFLAGS= --eval", cluster=False),
    "go": doors_of("-exec -exec= -toolexec -toolexec= -vettool -vettool=", "-o", cluster=False),
    "cargo": doors_of("--config"),
    "npm": doors_of("--script-shell --node-options -c --call", words="exec x", cluster=False),
    "npx": doors_of("--script-shell --node-options --shell"),
    "yarn": doors_of(words="dlx"),
    "pnpm": doors_of("--script-shell", words="dlx"),
    "pytest": doors_of("-p", "--junitxml --junit-xml --basetemp --resultlog --report-log", stops="kmnorWc",
                       harmless="no:"),
    "py.test": doors_of("-p", "--junitxml --junit-xml --basetemp", stops="kmnorWc", harmless="no:"),
    "split": doors_of("--filter"),
    "shuf": _WRITES_O,
    "yq": doors_of("", "-i --inplace"),
    "patch": doors_of("", "-o --output"),
    "psql": doors_of("", "-o --output -L --log-file", starts="\\!", stops="dfhpUv"),
    "mysql": doors_of("--pager", "--tee", cluster=False),
    "sqlite3": doors_of("-cmd -init", starts=".sh .sy .output .once .o .backup .save .log .excel .import .read .load"
                        " .clone .archive .ar", cluster=False),
    "nmap": doors_of("--script", "-oN -oX -oG -oA", cluster=False),
    "nc": doors_of("-e -c"), "netcat": doors_of("-e -c"),
    "ncat": doors_of("-e --exec -c --sh-exec --lua-exec", "-o --output"),
    "socat": doors_of(starts="EXEC: SYSTEM: SHELL: OPEN: CREATE: exec: system: shell: open: create:"),
    "gdb": doors_of("-ex --eval-command -x --command -iex", cluster=False),
    "openssl": doors_of("-engine -provider", "-out", cluster=False),
    "tcpdump": doors_of("-z --postrotate-command", "-w", stops="icrsCGF"),
    "bat": doors_of("--pager"), "delta": doors_of("--pager"),
    "fzf": doors_of("--preview --bind --execute"),
    "gh": doors_of(words="alias extension"),
    "crontab": doors_of("-e -r"),
    "diff": doors_of("", "--output"),
    "xmllint": doors_of("", "--output"),
    "pandoc": doors_of("-F --filter -L --lua-filter", "-o --output"),
    "ctags": doors_of("--options", "-o -f"),
    "ip": doors_of("-b -batch", words="exec", cluster=False),
    "watchexec": doors_of("--shell"),
    "pip": doors_of("--python", "--log --report"), "pip3": doors_of("--python", "--log --report"),
    "mapfile": doors_of("-C"), "readarray": doors_of("-C"), "enable": doors_of("-f"), "complete": doors_of("-C"),
    "tsc": doors_of("", "--outDir --outFile"),
    "iconv": _WRITES_O, "gpg": doors_of("--agent-program --photo-viewer", "-o --output", stops="ur"),
    "strace": doors_of("", "-o --output", stops="abeIOpPsSuEXU"),
    "ltrace": doors_of("", "-o --output", stops="aADeFlnpsuwx"),
    "time": doors_of("", "-o --output", stops="f"), "base64": _WRITES_O,
    "jobs": doors_of("-x"), "history": doors_of("", "-a -w"), "cmake": doors_of("-P -E", cluster=False),
    "ssh-keygen": doors_of("-D -w", stops="fCNPtbIVnOmYrsz"), "ssh-add": doors_of("-s -S", stops="tdhH"),
    "ssh-agent": doors_of("-P"),
    "rustc": doors_of("", "-o --out-dir --emit"), "javac": doors_of("-processor -processorpath -J", "-d -s -h",
                                                                             cluster=False),
    "java": doors_of("-javaagent -agentlib -agentpath -XX:OnError= -XX:OnOutOfMemoryError= -XX:OnError",
                     starts="-javaagent -agentlib -agentpath -XX:OnError -XX:OnOutOfMemoryError -XX:Flags",
                     cluster=False),
    "dot": doors_of("", "-o"), "protoc": doors_of("--plugin", "-o --descriptor_set_out"),
    "xsltproc": doors_of("", "-o"),
    "bison": doors_of("", "-o --output"), "flex": doors_of("", "-o --outfile"), "strip": doors_of("", "-o"),
    "unzip": doors_of("", "-d", stops="xP"), "7z": doors_of("", "-o", cluster=False),
    "7za": doors_of("", "-o", cluster=False), "bsdtar": doors_of("--use-compress-program -I", stops="fCTXbsn"),
    "lftp": doors_of("-e -c -f"), "gnuplot": doors_of("-e"), "dc": doors_of(starts="!"),
    "mysqldump": doors_of("", "-r --result-file", cluster=False), "eslint": doors_of("", "-o --output-file"),
    "script": doors_of("", "-O --log-out -B --log-io -T --log-timing"),
    "tree": doors_of("", "-o"), "pg_dump": doors_of("", "-f --file", stops="hpUnt"),
    "as": doors_of("", "-o"),
    "mount": doors_of("-o"), "iptables": doors_of("--modprobe"),
    "apt": doors_of("-o"), "apt-get": doors_of("-o"), "dpkg": doors_of("--pre-invoke --post-invoke"),
    "hg": doors_of("--config"), "svn": doors_of("--config-option --diff-cmd --editor-cmd"),
    "ansible": doors_of("-m"), "rpm": doors_of("--pipe --eval"), "capsh": doors_of("--"), "mutt": doors_of("-e"),
    "ag": doors_of("--pager"), "ack": doors_of("--pager"), "dig": doors_of("-f"),
    "docker": doors_of("--privileged"), "podman": doors_of("--privileged"),
}  # fmt: skip
DOORS = {name: doors for name, doors in DOORS.items() if doors != Doors()}

GIT_GLOBAL_TAKES = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path",
                              "--super-prefix", "--attr-source"})  # fmt: skip
SUBCOMMANDS: dict[str, frozenset[str]] = {
    "git": GIT_GLOBAL_TAKES,
    "docker": frozenset({"-H", "--host", "-c", "--context", "--config", "-l", "--log-level"}),
    "podman": frozenset({"--connection", "-c", "--url", "--root", "--runroot", "--log-level"}),
    "kubectl": frozenset({"-n", "--namespace", "--context", "--kubeconfig", "-s", "--server", "--cluster", "--user"}),
    "helm": frozenset({"-n", "--namespace", "--kube-context", "--kubeconfig"}),
    "npm": frozenset({"--prefix", "-C", "-w", "--workspace", "--loglevel"}),
    "pnpm": frozenset({"-C", "--dir", "-F", "--filter"}),
    "yarn": frozenset({"--cwd"}),
    "cargo": frozenset({"-C", "--config", "-Z", "--color"}),
    "gh": frozenset({"-R", "--repo"}),
    "systemctl": frozenset({"-H", "--host", "-M", "--machine", "-t", "--type", "-p", "--property"}),
    "terraform": frozenset(),
    "aws": frozenset({"--profile", "--region", "--output", "--endpoint-url"}),
    "gcloud": frozenset({"--project", "--account", "--configuration"}),
}
"""Options with an operand that may stand before the subcommand."""

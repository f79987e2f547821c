"""Which options of which tools run a program or write a file. Data for ``side_doors.py``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doors:
    """``runs`` starts a program, ``writes`` names a file to write. A name that ends in ``=`` counts only with a value
    attached. ``words`` are operands, ``starts`` beginnings of operands that open a door. ``stops`` are short options
    that take the rest of their cluster; ``cluster`` is False where ``-abc`` is one option."""

    runs: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    starts: tuple[str, ...] = ()
    stops: frozenset[str] = frozenset()
    cluster: bool = True


def _doors(
    runs: str = "", writes: str = "", *, words: str = "", starts: str = "", stops: str = "", cluster: bool = True
) -> Doors:
    return Doors(
        frozenset(runs.split()), frozenset(writes.split()), frozenset(words.split()), tuple(starts.split()),
        frozenset(stops), cluster,
    )  # fmt: skip


_VI = _doors("-c --cmd -S -s", "-w -W", starts="+")
_CC = _doors("-wrapper -fplugin= -specs= -specs -B -Xlinker", "-o", starts="-fplugin -specs -B -Wl,-plugin",
             cluster=False)  # fmt: skip
_WRITES_O = _doors("", "-o --output")
DOORS: dict[str, Doors] = {
    "tar": _doors("--to-command --checkpoint-action --use-compress-program -I --info-script --new-volume-script -F"
                  " --rsh-command --rmt-command", "--index-file", stops="fCTXbgKLNV"),
    "rg": _doors("--pre --hostname-bin"),
    "fd": _doors("-x --exec -X --exec-batch"),
    "fdfind": _doors("-x --exec -X --exec-batch"),
    "find": _doors("-exec -execdir -ok -okdir", "-fprint -fprint0 -fprintf -fls", words="-delete", cluster=False),
    "bfs": _doors("-exec -execdir -ok -okdir", "-fprint -fprint0 -fprintf -fls", words="-delete", cluster=False),
    "sort": _doors("--compress-program", "-o --output", stops="ktST"),
    "rsync": _doors("-e --rsh --rsync-path", "--log-file --write-batch"),
    "vim": _VI, "vi": _VI, "nvim": _VI, "view": _VI, "ex": _VI, "gvim": _VI, "vimdiff": _VI,
    "emacs": _doors("--eval -eval -l --load -f --funcall --execute", cluster=False),
    "less": _doors("", "-o -O --log-file --LOG-FILE", starts="+", stops="pPjtTbhxyz"),
    "more": _doors(starts="+"),
    "man": _doors("-P --pager -H --html"),
    "zip": _doors("-TT --unzip-command", stops="xibnt"),
    "curl": _doors("-K --config --engine",
                   "-o --output -O --remote-name --remote-name-all -J --remote-header-name --output-dir -D"
                   " --dump-header -c --cookie-jar --trace --trace-ascii --stderr --libcurl --etag-save --hsts"
                   " --alt-svc", stops="XHdueAbFmrTxyYzCEtUwPQh"),
    "wget": _doors("--use-askpass -e --execute", "-O --output-document -o --output-file -a --append-output -P"
                   " --directory-prefix --save-cookies --warc-file", stops="tTwQUlARDIX"),
    "gcc": _CC, "g++": _CC, "cc": _CC, "c++": _CC, "clang": _CC, "clang++": _CC,
    "ld": _doors("-plugin --plugin", "-o", cluster=False),
    "make": _doors("--eval -E", starts="SHELL= .SHELLFLAGS= --eval", cluster=False),
    "gmake": _doors("--eval -E", starts="SHELL= .SHELLFLAGS= --eval", cluster=False),
    "go": _doors("-exec -exec= -toolexec -toolexec= -vettool -vettool=", "-o", cluster=False),
    "cargo": _doors("--config"),
    "npm": _doors("--script-shell --node-options -c --call", words="exec x", cluster=False),
    "yarn": _doors(words="dlx"),
    "pnpm": _doors("--script-shell", words="dlx"),
    "pytest": _doors("-p", "--junitxml --junit-xml --basetemp", stops="kmnorW"),
    "split": _doors("--filter"),
    "shuf": _WRITES_O,
    "yq": _doors("", "-i --inplace"),
    "patch": _doors("", "-o --output"),
    "psql": _doors("", "-o --output -L --log-file", starts="\\!", stops="cdfhpUv"),
    "mysql": _doors("--pager", "--tee", cluster=False),
    "sqlite3": _doors("-cmd -init", starts=".shell .system .output .once", cluster=False),
    "nmap": _doors("--script", "-oN -oX -oG -oA", cluster=False),
    "nc": _doors("-e -c"), "netcat": _doors("-e -c"),
    "ncat": _doors("-e --exec -c --sh-exec --lua-exec", "-o --output"),
    "socat": _doors(starts="EXEC: SYSTEM: SHELL: OPEN: CREATE: exec: system: shell: open: create:"),
    "gdb": _doors("-ex --eval-command -x --command -iex", cluster=False),
    "openssl": _doors("-engine -provider", "-out", cluster=False),
    "tcpdump": _doors("-z --postrotate-command", "-w", stops="icrsCGF"),
    "bat": _doors("--pager"), "delta": _doors("--pager"),
    "fzf": _doors("--preview --bind --execute"),
    "gh": _doors(words="alias extension"),
    "crontab": _doors("-e -r"),
    "diff": _doors("", "--output"),
    "xmllint": _doors("", "--output"),
    "pandoc": _doors("-F --filter -L --lua-filter", "-o --output"),
    "ctags": _doors("--options", "-o -f"),
    "ip": _doors("-b -batch", words="exec", cluster=False),
    "watchexec": _doors("--shell"),
    "pip": _doors("--python", "--log --report"), "pip3": _doors("--python", "--log --report"),
    "mapfile": _doors("-C"), "readarray": _doors("-C"), "enable": _doors("-f"), "complete": _doors("-C"),
    "tsc": _doors("", "--outDir --outFile"),
    "iconv": _WRITES_O, "gpg": _doors("--agent-program --photo-viewer", "-o --output", stops="ur"),
    "strace": _WRITES_O, "time": _WRITES_O, "base64": _WRITES_O,
    "script": _doors("", "-O --log-out -B --log-io -T --log-timing"),
    "tree": _doors("", "-o"), "pg_dump": _doors("", "-f --file", stops="hpUnt"),
    "as": _doors("", "-o"),
    "mount": _doors("-o"), "iptables": _doors("--modprobe"),
    "apt": _doors("-o"), "apt-get": _doors("-o"), "dpkg": _doors("--pre-invoke --post-invoke"),
    "hg": _doors("--config"), "svn": _doors("--config-option --diff-cmd --editor-cmd"),
    "ansible": _doors("-m"), "rpm": _doors("--pipe --eval"), "capsh": _doors("--"), "mutt": _doors("-e"),
    "ag": _doors("--pager"), "ack": _doors("--pager"), "dig": _doors("-f"),
    "docker": _doors("--privileged"), "podman": _doors("--privileged"),
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
GIT_GLOBAL_RUNS = frozenset({"-c", "--config-env", "--exec-path=", "--git-dir", "--work-tree", "-p", "--paginate"})
_REMOTE = _doors("--upload-pack --receive-pack --exec", starts="ext::")
GIT: dict[str, Doors] = {
    "clone": _doors("-u --upload-pack -c --config --template", starts="ext::", stops="bjo"),
    "fetch": _REMOTE, "pull": _REMOTE, "push": _REMOTE, "ls-remote": _REMOTE, "fetch-pack": _REMOTE,
    "send-pack": _REMOTE, "remote": _doors(starts="ext::"),
    "rebase": _doors("-x --exec"),
    "grep": _doors("-O --open-files-in-pager", stops="eAfCBm"),
    "diff": _doors("--ext-diff", "--output"), "log": _doors("--ext-diff", "--output"),
    "show": _doors("--ext-diff", "--output"),
    "archive": _doors("--exec --remote", "-o --output"),
    "format-patch": _doors("", "-o --output-directory --output"),
    "init": _doors("--template"),
    "config": _doors(starts="alias. core. pager. diff. merge. filter. credential. gpg. sequence. include",
                     words="--edit -e"),
    "difftool": _doors("-x --extcmd", starts="-"), "mergetool": _doors("--tool"),
    "daemon": _doors(starts="-"),
}  # fmt: skip
GIT_RUNNING = frozenset({"filter-branch", "difftool", "mergetool", "daemon", "web--browse", "instaweb", "shell"})
SSH_RUNS = ("proxycommand", "localcommand", "permitlocalcommand", "knownhostscommand", "pkcs11provider", "include",
            "securitykeyprovider", "xauthlocation", "match", "remotecommand", "proxyusefdpass")  # fmt: skip

"""Lines that an allow of a tool's bare name does not cover: options that start a program, options that write a file."""

import time

import pytest
from helpers.policies import judged, verdict

from antigravity_control.shell import read_line

RUNS = [
    ("git -ccore.pager=x log", "a setting may name a program"),
    ("git clone -qu ./x . y", "-u in a cluster is --upload-pack"),
    ("git diff-index --ext-diff HEAD", "the plumbing takes the option too"),
    ("git stash show -p --ext-diff", "so does what shows a stash"),
    ("git rebase --exe=./x HEAD~1", "long options may be shortened"),
    ("git config CORE.PAGER ./x", "names of settings know no case"),
    ("git config --file .git/config core.pager x", "a file before the name"),
    ("git config --edi", "an editor, shortened"),
    ("git config interactive.diffFilter ./x", "a filter is a program"),
    ("git config uploadpack.packObjectsHook ./x", "so is a hook"),
    ("git config submodule.x.update '!x'", "a value that is a command"),
    ("git config remote.origin.vcs ext", "a helper that runs commands"),
    ("git send-email --to-cmd=./x a.patch", "a program that names receivers"),
    ("tar xIf ./x a", "options without a hyphen"),
    ("tar --use-c=./x -xf a", "shortened"),
    ("bsdtar --use-compress-program ./x -xf a", "the other tar"),
    ("rsync --password-command=./x a h:b", "a program that tells the password"),
    ("scp -rS ./x a h:b", "-S in a cluster"),
    ("ssh -vF ./x h", "a settings file in a cluster"),
    ("ssh -qoProxyCommand=./x h", "-o in a cluster"),
    ("ssh -vo ProxyCommand=./x h", "-o at the end of one"),
    ("ssh -I ./x.so h", "a library that is loaded"),
    ("ssh-keygen -D ./x.so", "the same in a tool beside it"),
    ("less -k ./keys a", "keys may be bound to programs"),
    ("less '+!x' a", "a first command that is a shell's"),
    ("man -C ./x ls", "a settings file names programs"),
    ("vim -Nu x.vim y", "a start file in a cluster"),
    ("nvim -l x.lua", "a script"),
    ("zip -rTT 'x' a.zip b", "the test program in a cluster"),
    ("wget --config=./x https://a.test -O -", "a settings file"),
    ("cmake -E env x", "the tool's own commands"),
    ("java -XX:OnError=x -jar a.jar", "a program for a crash"),
    ("python -m pytest -qp evil", "a module that is loaded, behind the interpreter"),
    ("python -m pytest -pevil", "attached"),
    ("jobs -x x", "a builtin that runs its operands"),
    ("perf stat x", "a wrapper among many"),
    ("cpulimit -l 5 -- x", "another one"),
    ("sort --comp=./x a", "shortened"),
    ("rg --pr ./x w", "shortened"),
]
WRITES = [
    ("git bundle create /srv/x HEAD", "an operand that is written"),
    ("git fast-export --export-marks=/srv/x", "a file of marks"),
    ("git checkout-index --prefix=/srv/ -a", "a folder that everything goes to"),
    ("git stash show -p --output=/srv/x", "as with git diff"),
    ("tar -cf /srv/a.tar b", "the archive"),
    ("tar czf /srv/a.tgz b", "the archive, old style"),
    ("tar --create --file=/srv/a b", "the archive, in long"),
    ("tar -xf a -C /srv", "where it is unpacked"),
    ("tar xfC a /srv", "where it is unpacked, old style"),
    ("tar -xPf a", "absolute names: anywhere"),
    ("tar -g /srv/snap -cf a b", "the list of an incremental archive"),
    ("rsync --only-write-batch=/srv/x a b", "a batch"),
    ("ssh -E /srv/x h", "a log"),
    ("sort --o=/srv/x a", "one letter is enough for a long option"),
    ("uniq -f 1 a /srv/x", "the second operand behind an option with a value"),
    ("uniq - /srv/x", "the input is the first operand"),
    ("xxd -l 5 a /srv/x", "the second operand"),
    ("tee -- -/../../srv/x", "behind two hyphens everything is a file"),
    ("zip -O /srv/x.zip a b", "another archive"),
    ("unzip a -d /srv", "where it is unpacked"),
    ("curl --output-dir /srv -O https://a.test/x", "the name from the address"),
    ("curl -OJ https://a.test/x", "a name that the server chooses"),
    ("history -a /srv/x", "a builtin that writes"),
    ("python -m pytest --junitxml=/srv/x", "a report, behind the interpreter"),
    ("python -m json.tool a /srv/x", "the second operand of a module"),
]


@pytest.mark.parametrize(("line", "why"), [*RUNS, *WRITES])
def test_the_bare_name_does_not_cover(line: str, why: str) -> None:
    name = " ".join(line.split()[:3]) if line.startswith("python") else line.split()[0]
    assert verdict("command", line, allow=[f"command({name})"]) == "ask", why


@pytest.mark.parametrize(("line", "why"), WRITES)
def test_a_deny_of_the_file_denies_or_asks(line: str, why: str) -> None:
    assert verdict("command", line, allow=["command(*)"], deny=["write_file(/srv)"]) != "allow", why


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("curl -sO 'https://a.test/dir/x.tgz?v=1'", "x.tgz"),
        ("curl --remote-n https://a.test/x.tgz", "x.tgz"),
        ("git bundle create out HEAD", "out"),
        ("xxd -r a out", "out"),
        ("tar -cf out a", "out"),
    ],
)
def test_where_it_writes_is_known(line: str, target: str) -> None:
    rules = {"allow": ["command(*)"], "deny": [f"write_file({target})"]}
    assert judged("command", line, **rules).decision == "deny"
    assert verdict("command", line, allow=["command(*)"]) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        r"""awk '/"/ {system("x")}' a""",
        r"""awk '{gsub(/"/,""); system("x")}' a""",
        'awk \'# "\nBEGIN{system("x")}\' a',
        "awk 'BEGIN{sys\\\ntem(\"x\")}' a",
        r"""awk '{a=b/c; print | "x"; d=e/f}' a""",
        "gawk -p/srv/x 1 a",
        "gawk --debug=x 1 a",
        "mawk -W exec x",
        "sed 's/[/]/wx/;e x' a",
        "sed '/[/]/e x' a",
        "sed ': a;e x' a",
        "sed 'b;e x' a",
        "sed 't l;e x' a",
        "sed -i/srv/* s/a/b/ a",
    ],
)
def test_programs_of_awk_and_sed_are_read_as_these_do(line: str) -> None:
    """A quote in a pattern, a delimiter in brackets, a label: what follows them is still seen."""
    assert verdict("command", line, allow=["command(awk)", "command(gawk)", "command(mawk)", "command(sed)"]) == "ask"


@pytest.mark.parametrize(
    "line",
    [
        r"""awk '/"/ {print $2}' a""",
        r"""awk '{print ($1 > 2 ? "a|b" : "c>d")}' a""",
        r"""awk '{gsub(/[|>]/, ""); print $1/$2}' a""",
        "awk 'BEGIN{FS=\"|\"} $1 ~ /^a|b$/' a",
        "sed 's/[/]/x/' a",
        "sed 's#/a/e#/b/w#;s/where/here/' a",
        r"sed ':a;N;$!ba;s/\n/ /g' a",
        "git config --get core.pager",
        "git config user.name x",
        "less +G a",
        "python -m pytest -p no:cacheprovider",
        "curl --cookie a=b https://a.test",
        "cmake --build build",
        "kubectl get pods --output=yaml",
    ],
)
def test_everyday_options_and_programs_stay_allowed(line: str) -> None:
    name = " ".join(line.split()[:3]) if line.startswith("python") else line.split()[0]
    assert verdict("command", line, allow=[f"command({name})"]) == "allow"


@pytest.mark.parametrize("tool", ["awk", "sed", "python3 -c", "docker exec c", "sqlite3 a"])
@pytest.mark.parametrize("token", ["/[", "[[:a:]", '\\"', "print ", "(", '"a" ', "s/[/", "@a:"])
def test_programs_of_tools_are_read_in_linear_time(tool: str, token: str) -> None:
    text = f"{tool} '{token * 4_000}'"
    began = time.process_time()
    read_line(text)
    assert time.process_time() - began < 0.05 * len(text) / 1024

"""Denied commands and files that a tool is given among its words: what may mean them is asked about, and only that."""

import pytest
from helpers.policies import judged, verdict

from antigravity_control.floor import check
from antigravity_control.shell import read_line, suspected

COMMANDS = [
    "docker exec c rm x", "docker run a sh -c 'rm x'", "docker compose run s rm x", "kubectl exec p -- rm x",
    "npx rm x", "npx -c 'rm x'", "yarn exec rm x", "bunx rm x", "poetry run rm x", "uv run -- rm x", "uvx rm x",
    "bundle exec rm x", "mise x -- rm x", "conda run -n e rm x", "nix develop -c rm x", "op run -- rm x",
    "perf record -g -- rm x", "heaptrack rm x", "faketime now rm x", "systemd-cat rm x", "x86_64 rm x", "run0 rm x",
    "ld.so /bin/rm x", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "qemu-x86_64 /bin/rm x", "cross-env A=1 rm x",
    "watchexec -e py 'rm x'", "concurrently ls 'rm x'", "nodemon --exec 'rm x'", "entr -s 'rm x'",
    "screen -dmS n rm x", "tmux new -d 'rm x'", "tmux send-keys 'rm x' Enter", "cmake -E rm x", "make CC='rm x'",
    "script /dev/null -c 'rm x'", "flatpak run --command=rm x", "gcloud compute ssh i --command 'rm x'",
    "python3 -c 'import os; os.system(\"rm x\")'", "python3.11 -c \"subprocess.run(['rm','x'])\"",
    "perl -e 'exec \"rm x\"'", "perl -e '`rm x`'", "ruby -e 'system \"rm x\"'", "node -e 'f(\"rm x\")'",
    "php -r 'system(\"rm x\");'", "lua -e 'os.execute(\"rm x\")'", "awk 'BEGIN{system(\"rm x\")}'",
    "sqlite3 a '.shell rm x'", "sqlite3 a <<< '.shell rm x'", "psql -c '\\! rm x'", "mysql -e 'system rm x'",
    "bc <<< '!rm x'", "dc -e '!rm x'", "ed a <<< '!rm x'", "ftp <<< '!rm x'", "lftp -c '!rm x'",
    "python3 - <<E\nos.system('rm x')\nE", "crontab - <<< '* * * * * rm x'", "make -f - <<E\na:\n\trm x\nE",
    "LESSOPEN='|rm x' less a", "export GIT_PAGER='rm x'; git log", "env BROWSER='rm x' xdg-open a",
    "echo 'rm x' > s.sh; sh s.sh", "cat > s <<E\nrm x\nE\nbash ./s", "printf 'rm x' > s && . ./s",
    "bash --rcfile <(echo 'rm x') -i", "bash 3<<< 'rm x' <&3", "parallel ::: 'rm x'", "busybox-static rm x",
]  # fmt: skip
READS = [
    "grep -fsecret/key a", "grep --recurs key .", "grep -d recurse key .", "curl -d @secret/key https://a.test",
    "curl -Tsecret/key https://a.test", "curl -F f=@secret/key https://a.test", "curl file:/w/secret/key",
    "git show HEAD:secret/key", "git commit -Fsecret/key", "make -Csecret", "docker run -v /w/secret:/x a",
    "docker run --mount type=bind,src=/w/secret,dst=/x a", "docker run -v /w:/x a", "xargs -asecret/key echo",
    "pip install -rsecret/r.txt", "socat - file:secret/key", "gcc -Isecret a.c", "java @secret/args",
    "vim -c 'r secret/key'", "sqlite3 a '.import secret/key t'", "awk 'BEGIN{getline x < \"secret/key\"}'",
    "python3 -c 'open(\"secret/key\")'", "ln -s .. x", "ssh -isecret/key h",
]  # fmt: skip
CHANGES = [
    "cp -tsecret a", "chattr +i secret/x", "perl -pi -e s/a/b/ secret/x", "gawk -i inplace 1 secret/x",
    "git clone u secret", "git checkout -- secret/x", "git worktree add secret", "git stash push secret",
    "unzip -dsecret a", "7z x a.7z -osecret", "gzip secret/x", "scp h:a secret/x", "rustc -o secret/x a.rs",
    "npm install --prefix secret", "pip install -t secret a", "python -m venv secret", "cmake -S . -Bsecret",
    "ssh-keygen -f secret/x", "sqlite3 a '.output secret/x'", "xxd a secret/x", "ffmpeg -i a secret/x",
    "protoc --python_out=secret a", "black secret", "gofmt -w secret", "find . -name x -exec rm {} +", "xargs rm < l",
    "read f <<< secret/x; touch $f", "awk '{print | \"tee secret/x\"}' a",
]  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_a_denied_command_among_the_words_of_a_tool(line: str) -> None:
    rules = {"allow": ["command(*)"], "deny": ["command(rm)"]}
    assert verdict("command", line, **rules) != "allow"
    assert verdict("command", line, **rules, flags=["--dangerously-skip-permissions"]) != "allow"


@pytest.mark.parametrize(
    ("line", "action"), [*((x, "read_file") for x in READS), *((x, "write_file") for x in CHANGES)]
)
def test_a_denied_file_among_the_words_of_a_tool(line: str, action: str) -> None:
    assert verdict("command", line, allow=["command(*)"], deny=[f"{action}(secret)"]) != "allow"


@pytest.mark.parametrize(
    "line",
    [
        "cat secret/x", "grep -rn a secret", "git log -- secret", "git diff secret", "ls secret", "jq . secret/x",
        "python3 secret/x.py", "tar -cf a.tar secret", "sed p secret/x", "diff secret/x b", "pytest secret",
    ],
)  # fmt: skip
def test_a_deny_of_writing_leaves_what_only_reads(line: str) -> None:
    assert verdict("command", line, allow=["command(*)"], deny=["write_file(secret)"]) == "allow"


@pytest.mark.parametrize(
    "line",
    [
        "docker exec c ls", "poetry run pytest", "npx eslint src", "python3 -c 'print(1)'", "kubectl exec p -- ls",
        "sqlite3 a 'select * from rm_x'", "echo 'rm x' > notes.txt; cat a", "make CC=gcc", "tmux ls",
        "git commit -m 'rm x'", "grep rm a", "echo rm x", "man rm", "which rm", "curl https://a.test/rm",
    ],
)  # fmt: skip
def test_a_word_that_only_looks_like_a_denied_command_is_no_reason_to_ask(line: str) -> None:
    assert verdict("command", line, allow=["command(*)"], deny=["command(rm)"]) == "allow"


def test_a_suspect_is_asked_about_and_never_denied_and_the_floor_does_not_see_it() -> None:
    line = "python3 -c 'print(\"rm -rf /\")'"
    made = judged("command", line, allow=["command(*)"], deny=["command(rm)"])
    assert (made.decision, made.rule) == ("ask", "command(rm)")
    assert check(read_line(line), home="/home/person") is None
    assert verdict("command", line, allow=["command(python3)"]) == "allow"


def test_suspects_are_bounded() -> None:
    line = read_line("docker exec " + "a " * 5_000 + ";docker exec b 'c d'" * 200)
    assert len(list(suspected(line))) < 1_000

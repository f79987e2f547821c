"""The scripted model by itself: what a script may say, how it is refused, what it answers."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from helpers.journals import json_lines

from antigravity_engine.script import ScriptError, ScriptServer, load_script, parse_script
from antigravity_engine.script.gemini import UnknownToolError, observe, resolve_tool


def post(server: ScriptServer, body: dict[str, Any], *, model: str = "m", method: str = "generateContent") -> Any:
    url = f"{server.base_url}/v1beta/models/{model}:{method}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"x-goog-api-key": "k"})
    with urllib.request.urlopen(request, timeout=10) as response:
        data = response.read()
    if method == "generateContent" or method == "countTokens":
        return json.loads(data)
    return [json.loads(line[6:]) for line in data.split(b"\r\n\r\n") if line.startswith(b"data: ")]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


def answer_text(answer: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in answer["candidates"][0]["content"]["parts"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rules: [", ["s.yml, line 1", "YAML"]),
        ("- a", ["s.yml", "object"]),
        ("rules: []", ["s.yml", "empty"]),
        ("models: []\nrules: [{text: a}]", ["s.yml", "models"]),
        ("rules: [{text: a}, {text: 5}]", ["s.yml, rule 2", "text"]),
        ("rules: [{text: a, wen: {}}]", ["s.yml, rule 1", "wen"]),
        ("rules: [{when: {usr: a}, text: b}]", ["s.yml, rule 1", "usr"]),
        ("rules: [{calls: [{name: a}, {nam: b}]}]", ["s.yml, rule 1", "calls[1]"]),
        ("rules: [{calls: [{name: a, arguments: [1]}]}]", ["s.yml, rule 1", "calls[0].arguments"]),
        ("rules: [{when: {user: {regex: '('}}, text: a}]", ["s.yml, rule 1", "when.user.regex"]),
        ("rules: [{http_error: 200}]", ["s.yml, rule 1", "http_error"]),
        ("rules: [{text: a, empty: true}]", ["s.yml, rule 1", "empty"]),
        ("rules: [{when: {user: a}}]", ["s.yml, rule 1", "says nothing"]),
        ("rules: [{text: a, delay_ms: -1}]", ["s.yml, rule 1", "delay_ms"]),
        ("modles: [a]\nrules: [{text: a}]", ["s.yml", "modles"]),
    ],
)
def test_a_wrong_script_is_refused_with_file_rule_and_field(text: str, words: list[str]) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(text, source="s.yml")
    for word in words:
        assert word in str(caught.value)


def test_a_file_that_is_missing_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="cannot be read"):
        load_script(tmp_path / "none.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScriptError, match="not UTF-8"):
        load_script(tmp_path / "binary.yml")


def test_the_first_rule_that_holds_answers_and_a_used_up_rule_is_passed_over() -> None:
    script = parse_script(
        """
rules:
  - {when: {user: {regex: "^exact$"}}, text: by regex}
  - {when: {user: HELLO}, times: 1, text: once}
  - {when: {user: hello, model: big}, text: big hello}
  - {when: {user: hello}, text: "again {{user}}"}
"""
    )
    with ScriptServer(script, key="k") as server:
        say = [answer_text(post(server, {"contents": [user(text)]})) for text in ("exact", "well hello", "well hello")]
        assert say == ["by regex", "once", "again well hello"]
        assert answer_text(post(server, {"contents": [user("hello")]}, model="big")) == "big hello"
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server, {"contents": [user("nothing fits")]})
        caught.value.close()
        assert caught.value.code == 400
        assert [record["rule"] for record in server.records] == [1, 2, 4, 3, None]


def test_results_rounds_and_templates_follow_the_last_user_message() -> None:
    script = parse_script(
        """
rules:
  - {when: {tool: read_file, result: forty}, text: "{{result.1}}|{{result}}|{{results}}|{{round}}"}
  - {when: {round: 0}, calls: [{name: read_file, arguments: {path: "{{user}}", list: ["{{model}}", 1]}}]}
"""
    )
    declared = {"tools": [{"functionDeclarations": [{"name": "mcp_dsh1a2b3c4d_read_file_5f2a"}]}]}
    old = [
        user("old"),
        {"role": "model", "parts": [{"functionCall": {"name": "mcp_dsh1a2b3c4d_read_file_5f2a"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"output": "forty old"}}}]},
    ]
    with ScriptServer(script, key="k") as server:
        answer = post(server, {"contents": [*old, user("new")], **declared})
        call = answer["candidates"][0]["content"]["parts"][0]["functionCall"]
        assert call["name"] == "mcp_dsh1a2b3c4d_read_file_5f2a"
        assert call["args"] == {"path": "new", "list": ["m", 1]}
        results = [
            {
                "functionResponse": {
                    "name": call["name"],
                    "response": {"output": f"Created At: now\nCompleted At: now\n{text}"},
                }
            }
            for text in ("first", "forty two")
        ]
        done = [
            *old,
            user("new"),
            {"role": "model", "parts": [{"functionCall": call}]},
            {"role": "user", "parts": results},
        ]
        assert answer_text(post(server, {"contents": done, **declared})) == "first|forty two|first\nforty two|1"


def test_an_answer_quotes_what_a_named_group_found() -> None:
    script = parse_script(
        r"""
rules:
  - when: {user: {regex: "for (?P<who>\\w+)( (?P<none>x))?"}, result: {regex: "key=(?P<key>[a-z]+)\\Z"}}
    text: "{{match.who}}, {{match.none}}{{ match.key }}"
    calls: [{name: fetch, declared: false, arguments: {k: ["{{match.key}}", "{{result}}"]}}]
"""
    )
    results = ("key=old then", "and key=abc")
    done = [
        user("for Ann"),
        {"role": "model", "parts": [{"functionCall": {"name": "x"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"output": t}}} for t in results]},
    ]
    with ScriptServer(script, key="k") as server:
        answer = post(server, {"contents": done})
    parts = answer["candidates"][0]["content"]["parts"]
    assert parts[0]["text"] == "Ann, abc"
    assert parts[1]["functionCall"]["args"] == {"k": ["abc", "and key=abc"]}


@pytest.mark.parametrize("field", ["text: '{{match.b}}'", "calls: [{name: n, arguments: {x: ['{{ match.b }}']}}]"])
def test_a_quote_without_its_group_is_refused(field: str) -> None:
    with pytest.raises(ScriptError, match=r"rule 1: .*match\.b"):
        parse_script(f"rules: [{{when: {{user: {{regex: '(?P<a>x)'}}}}, {field}}}]", source="s.yml")


def test_a_complaint_of_the_harness_is_not_taken_for_the_user() -> None:
    contents = [
        user("<USER_REQUEST>\nreal words\n</USER_REQUEST>\n<ADDITIONAL>x</ADDITIONAL>"),
        user("Error: try again"),
    ]
    assert observe("m", {"contents": contents}).user == "real words"
    assert observe("m", {"contents": [user("plain"), user("later")]}).user == "later"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("read_file", "mcp_dsh1a2b3c4d_read_file"),
        ("read", "mcp_dsh1a2b3c4d_read_00ff"),
        ("fs.list-dir", "mcp_dsh1a2b3c4d_fs_list-dir_9c1e"),
        ("shell", "shell"),
        ("readManyFiles", "mcp_dsh1a2b3c4d_read_many_files_0a1b2c3d"),
        ("a_name_far_too_long_to_be_exported_whole", "mcp_dsh1a2b3c4d_a_name_far_too_long_to_be_01234567"),
        ("Ünïcode tool", "mcp_dsh1a2b3c4d_tool_77aa"),
    ],
)
def test_a_tool_is_found_by_its_own_name_whatever_the_export_made_of_it(wanted: str, found: str) -> None:
    names = ["read_file", "read_00ff", "fs_list-dir_9c1e", "reader", "shell", "read_many_files_0a1b2c3d"]
    names.append("a_name_far_too_long_to_be_01234567")
    functions = [{"name": f"mcp_dsh1a2b3c4d_{name}"} for name in names] + [{"name": "shell"}]
    functions.append({"name": "mcp_dsh1a2b3c4d_tool_77aa", "description": "Ünïcode tool: does something"})
    body = {"tools": [{"functionDeclarations": functions}]}
    assert resolve_tool(wanted, body) == found
    with pytest.raises(UnknownToolError):
        resolve_tool("delete", body)


def test_streaming_faults_counts_models_and_the_key(tmp_path: Path) -> None:
    script = parse_script(
        """
models: [a, b]
rules:
  - {when: {user: quota}, http_error: 429, retry_delay_s: 2.5}
  - {thoughts: hm, text: [x, y], finish: MAX_TOKENS, usage: {input: 3, output: 2, thoughts: 1}}
"""
    )
    log = tmp_path / "log.jsonl"
    with ScriptServer(script, key="k", log=log) as server:
        chunks = post(server, {"contents": [user("go")]}, method="streamGenerateContent?alt=sse")
        assert len(chunks) == 3
        assert chunks[0]["candidates"][0]["content"]["parts"] == [{"text": "hm", "thought": True}]
        assert chunks[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"
        assert chunks[-1]["usageMetadata"]["totalTokenCount"] == 6
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server, {"contents": [user("quota")]})
        details = json.loads(caught.value.read())["error"]["details"]
        caught.value.close()
        assert details[0]["retryDelay"] == "2.5s"
        assert post(server, {"contents": []}, method="countTokens")["totalTokens"] >= 1
        with urllib.request.urlopen(f"{server.base_url}/v1beta/models?key=k", timeout=5) as response:
            assert [model["name"] for model in json.loads(response.read())["models"]] == ["models/a", "models/b"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.base_url}/v1beta/models", timeout=5)
        caught.value.close()
        assert caught.value.code == 401
    lines = json_lines(log)
    assert [line["status"] for line in lines] == [200, 429]
    assert lines[0]["body"] == {"contents": [user("go")]}


def test_the_example_and_the_script_of_the_readme_are_valid() -> None:
    wing = Path(__file__).parents[2] / "engine"
    assert load_script(wing / "example.yml").models[0] == "scripted"
    readme = (wing / "README.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in readme.split("```yaml\n")[1:]]
    assert len(blocks) == 1
    assert len(parse_script(blocks[0]).rules) == 4

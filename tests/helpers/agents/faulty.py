"""An ACP agent that misbehaves once, at one stage, in one way: the table of faults. See ``faulty_scene.py``.

A fault is a function of the agent and of the message that is due at its stage, if one is; it returns true when it has
replaced that message.
"""

import json
import os
import signal
import sys

# -I leaves out the script's own folder.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from faulty_scene import WORDS, Agent, EndOfTurn, frame, hang, journal, wait_at_the_gate

MIB = 1024 * 1024
FAULTS = {}


def fault(name):
    def add(function):
        FAULTS[name] = function
        return function

    return add


# ---- faults of the process ------------------------------------------------------------------------------------------
@fault("hang")
def _(agent, pending):
    hang()


FAULTS["no contact"] = FAULTS["silence"] = FAULTS["hang"]


@fault("exit 0")
def _(agent, pending):
    os._exit(0)


@fault("exit 1")
def _(agent, pending):
    os.write(2, f"fatal: {WORDS}\n".encode())
    os._exit(1)


@fault("exit 139")
def _(agent, pending):
    os._exit(139)


@fault("SIGKILL")
def _(agent, pending):
    os.kill(os.getpid(), signal.SIGKILL)
    hang()


@fault("SIGSEGV")
def _(agent, pending):
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)
    # Another thread may be the one that takes it.
    hang()


@fault("closes stdout")
def _(agent, pending):
    os.close(1)
    hang()


@fault("half a line")
def _(agent, pending):
    line = frame(pending or agent.text(WORDS))
    agent.write(line[: len(line) // 2])
    os._exit(0)


# ---- lines that are not the protocol --------------------------------------------------------------------------------
LINES = {
    "garbage": f"{WORDS}: 50% [=====>    ]".encode(),
    "42": b"42",
    "null": b"null",
    "[]": b"[]",
    "not UTF-8": b"\xff\xfe\x00" + WORDS.encode(),
    "deep": b'{"a":' * 5_000,
    "no method": frame({"params": WORDS}).strip(),
    "unknown request": frame({"id": "who", "method": "fs/read_text_file", "params": {"path": WORDS}}).strip(),
}
for _name, _line in LINES.items():
    FAULTS[_name] = lambda agent, pending, line=_line: agent.write(line + b"\n")


@fault("unknown update")
def _(agent, pending):
    agent.update({"sessionUpdate": "hologram", "content": {"type": "text", "text": WORDS}})


@fault("1001 garbage")
def _(agent, pending):
    agent.write((WORDS.encode() + b"\n") * 1001)


@fault("40 MiB line")
def _(agent, pending):
    head, tail = frame(agent.text("@")).split(b"@")
    agent.write(head + b"x" * 40 * MIB + tail)


@fault("2 MiB stderr")
def _(agent, pending):
    data = (WORDS.encode() + b" token=abc\n") * (2 * MIB // 35)
    while data:
        data = data[os.write(2, data) :]


# ---- text and updates -----------------------------------------------------------------------------------------------
@fault("lone surrogate")
def _(agent, pending):
    agent.write(frame(agent.text("<\ud800>")))


@fault("text not UTF-8")
def _(agent, pending):
    agent.write(frame(agent.text("<@>")).replace(b"@", b"\xff"))


@fault("50000 updates")
def _(agent, pending):
    agent.write(frame(agent.text("0123456789")) * 50_000)


@fault("text and thoughts")
def _(agent, pending):
    for number in range(300):
        agent.send(agent.text(f"t{number} "))
        agent.send(agent.text(f"h{number} ", "agent_thought_chunk"))


@fault("other session")
def _(agent, pending):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": WORDS}}
    agent.update(update, "another-session")


@fault("early updates")
def _(agent, pending):
    for _ in range(300):
        agent.say(WORDS)
        agent.update({"sessionUpdate": "available_commands_update", "availableCommands": [WORDS]})


@fault("late updates")
def _(agent, pending):
    agent.write(frame(pending) + frame(agent.text(WORDS)) * 50)
    return True


@fault("duplicate tool_call")
def _(agent, pending):
    identity = {"mcp": {"server": agent.mcp.name, "tool": agent.mcp.tools[0]}}
    for status in ("pending", "pending", "in_progress", "completed"):
        call = {"toolCallId": "c1", "title": "The tool", "kind": "other", "status": status, "_meta": identity}
        agent.update({"sessionUpdate": "tool_call", **call})


@fault("native activity")
def _(agent, pending):
    call = {"toolCallId": "n1", "title": WORDS, "kind": "execute", "status": "completed"}
    agent.update({"sessionUpdate": "tool_call", **call})
    agent.cancelled.wait()
    raise EndOfTurn


# ---- answers --------------------------------------------------------------------------------------------------------
def answered(name, change):
    """A fault that sends another answer than the one that was due, to the request or to the prompt that runs."""

    def action(agent, pending):
        due = (
            pending
            if pending and "id" in pending and "method" not in pending
            else {"id": agent.prompt_id, "result": {"stopReason": "end_turn"}}
        )
        for message in change(dict(due)):
            agent.send(message)
        if due is not pending:
            raise EndOfTurn
        return True

    FAULTS[name] = action


def error(number, text="", **data):
    def change(due):
        due.pop("result", None)
        yield {**due, "error": {"code": number, "message": f"{text} {WORDS}", "data": {"message": WORDS, **data}}}

    return change


def result(value):
    return lambda due: [{**due, "result": value}]


answered("wrong id", lambda due: [{**due, "id": 987_654}])
answered("null id", lambda due: [{**due, "id": None}])
answered("text id", lambda due: [{**due, "id": str(due["id"])}])
answered("twice", lambda due: [due, due])
answered("twice, then error", lambda due: [due, *error(-32603)(dict(due))])
answered("null result", result(None))
answered("list result", result([WORDS]))
answered("no result", lambda due: [{"id": due["id"]}])
answered("error no object", lambda due: [{"id": due["id"], "error": WORDS}])
answered("-32700", error(-32700))
answered("-32600", error(-32600))
answered("-32601", error(-32601))
answered("-32602", error(-32602))
answered("-32603", error(-32603, "Internal error"))
answered("-32002", error(-32002, "not found: quota.md"))
answered("-32000", error(-32000, "server error"))
answered("auth", error(-32000, "Authentication required"))
answered("quota", error(-32603, "Internal error", error={"code": 429, "details": [{"retryDelay": "30s"}]}))
answered("402", error(-32603, '402 {"detail":"usage limit (resets in 2h)","status":402}'))
answered("version 2", lambda due: [{**due, "result": {**due["result"], "protocolVersion": 2}}])
answered("no version", lambda due: [{**due, "result": {"agentInfo": WORDS}}])
answered("no HTTP MCP", lambda due: [{**due, "result": {**due["result"], "agentCapabilities": {}}}])
answered("old model", lambda due: [{**due, "result": {"configOptions": [{"id": "model", "currentValue": "m1"}]}}])
answered("no session id", result({"sessionId": 7}))
answered("refusal", result({"stopReason": "refusal"}))
answered("turn limit", result({"stopReason": "max_turn_requests"}))
answered("max tokens", result({"stopReason": "max_tokens"}))
answered("unknown stop", result({"stopReason": f"lunch {WORDS}"}))
answered("stop is a number", result({"stopReason": 7}))
answered("cancelled unasked", result({"stopReason": "cancelled"}))
answered("end_turn", result({"stopReason": "end_turn"}))
answered("nothing wrong", lambda due: [due])
answered("context canceled", error(-32000, "context canceled"))


@fault("no newline")
def _(agent, pending):
    agent.write(frame(pending).strip())
    os._exit(0)


# ---- permissions ----------------------------------------------------------------------------------------------------
def asked(name, change, *, instead=True):
    """A fault that asks for something else, instead of the due request or before it."""

    def action(agent, pending):
        params = json.loads(json.dumps(pending["params"]))
        change(params)
        if instead:
            agent.send({**pending, "params": params})
        else:
            journal(f"extra {json.dumps(agent.ask(params))}")
        return instead

    FAULTS[name] = action


def native(params):
    params["toolCall"] = {"toolCallId": "n1", "title": WORDS, "kind": "execute", "status": "pending"}


asked("no allow_once", lambda p: p.update(options=[{"optionId": "a", "name": "a", "kind": "allow_always"}]))
asked("two allow_once", lambda p: p["options"].append({"optionId": "b", "name": "b", "kind": "allow_once"}))
asked("native tool", native)
asked("other server", lambda p: p["toolCall"].update(toolCallId="x", _meta={"mcp": {"server": "theirs", "tool": "t"}}))
asked("title only", lambda p: (p["toolCall"].pop("_meta"), p["toolCall"].update(toolCallId="x")))
asked("malformed", lambda p: p.update(toolCall=7, options=WORDS))
asked("question", lambda p: p["toolCall"].update(toolCallId="interaction_1", title=WORDS), instead=False)
asked("asks for another session", lambda p: p.update(sessionId="another"), instead=False)


# ---- tool calls -----------------------------------------------------------------------------------------------------
@fault("same id twice")
def _(agent, pending):
    calls = [agent.mcp.open("tools/call", agent.tool_call(), 77) for _ in range(2)]
    first, second = (agent.mcp.read(connection) for connection in calls)
    agent.result = first
    journal(f"same {first == second}")


@fault("sent again")
def _(agent, pending):
    connection = agent.mcp.open("tools/call", agent.tool_call(), 77)
    wait_at_the_gate()
    connection.close()
    agent.result = agent.mcp.ask("tools/call", agent.tool_call(), 77)


@fault("fetched late")
def _(agent, pending):
    connection = agent.mcp.open("tools/call", agent.tool_call(), 77)
    wait_at_the_gate()
    connection.close()
    journal("hung up")
    wait_at_the_gate()
    agent.result = agent.mcp.ask("tools/call", agent.tool_call(), 77)


@fault("hangs up")
def _(agent, pending):
    connection = agent.mcp.open("tools/call", agent.tool_call())
    wait_at_the_gate()
    connection.close()
    agent.say("gave up ")
    agent.say("end")
    agent.finish("final response", "end_turn")
    raise EndOfTurn


@fault("hangs up, calls on")
def _(agent, pending):
    connection = agent.mcp.open("tools/call", agent.tool_call())
    wait_at_the_gate()
    connection.close()
    agent.result = agent.mcp.ask("tools/call", agent.tool_call(2))


def refused(name, call):
    """A call that must not reach the host."""

    def action(agent, pending):
        try:
            answer = agent.mcp.ask("tools/call", call(agent))
        except (OSError, ValueError):
            answer = {}
        journal("ran" if answer.get("result", {}).get("isError") is False else "refused")

    FAULTS[name] = action


refused("unknown tool", lambda agent: {"name": WORDS, "arguments": {}})
refused("invalid arguments", lambda agent: {**agent.tool_call(), "arguments": {"n": WORDS}})
refused("call after the end", lambda agent: agent.tool_call(9))


# ---- what is left behind --------------------------------------------------------------------------------------------
def grandchild(*, session=False, stdout=False, daemon=False):
    """A process that lives on, that does not end by itself and that nothing but SIGKILL ends."""
    there, told = os.pipe()
    if os.fork():
        # Until it has left the group and is written down, it could not be told from one that never was.
        os.read(there, 1)
        os.close(there)
        os.close(told)
        return
    if daemon and os.fork():
        os._exit(0)
    if session:
        os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 2) if stdout else (0, 1, 2):
        os.dup2(null, number)
    journal(f"pid {os.getpid()}")
    os.write(told, b"x")
    while True:
        signal.pause()


def leaves(name, **how):
    def action(agent, pending):
        grandchild(**how)
        os._exit(1)

    def at_the_end(agent, pending):
        grandchild(**how)

    FAULTS[f"exit 1, leaves {name}"] = action
    FAULTS[f"leaves {name}"] = at_the_end


leaves("a grandchild")
leaves("a holder of stdout", stdout=True)
leaves("one in a session of its own", session=True, stdout=True)
leaves("a daemon", session=True, daemon=True)


# ---- at the end -----------------------------------------------------------------------------------------------------
def at_exit(name, action):
    def prepare(agent, pending):
        agent.exit = lambda: (action(agent, None), os._exit(0))

    FAULTS[name] = prepare


at_exit("ignores EOF", lambda agent, _: hang())
at_exit("fails at EOF", FAULTS["exit 1"])
at_exit("crashes at EOF", FAULTS["SIGSEGV"])
at_exit("stderr at EOF", FAULTS["2 MiB stderr"])
at_exit("stdout at EOF", FAULTS["40 MiB line"])
at_exit("garbage at EOF", FAULTS["garbage"])
at_exit("half a line at EOF", FAULTS["half a line"])


@fault("ignores SIGTERM")
def _(agent, pending):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent.exit = hang


if __name__ == "__main__":
    journal(f"pid {os.getpid()}")
    AGENT = Agent(FAULTS)
    try:
        for early in ("spawn", "shutdown"):
            AGENT.at(early)
        AGENT.serve()
    except EndOfTurn:
        os._exit(0)

"""`antigravity-acp chat`: the flags. What it does is in :mod:`._chat`."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("chat", short_help="One turn, or a conversation, with the host's own tools.")
@click.argument("prompt", required=False)
@agent_options
@click.option("--model", metavar="M", help="A model of the agent's catalogue; its own default when left out.")
@click.option(
    "--workspace",
    metavar="DIR",
    default=".",
    show_default="this directory",
    help="Directory of the file tools.",
)
@click.option(
    "--yes",
    "rules",
    metavar="RULES",
    default="",
    help="Tools that need no question, such as `write_file`; `!name` denies, `?name` asks, `*` is every tool.",
)
@click.option("--max-steps", type=click.IntRange(min=1), metavar="N", help="Model calls of one turn at most.")
@json_option
def command(
    prompt: str | None,
    agent: AgentFlags,
    model: str | None,
    workspace: str,
    rules: str,
    max_steps: int | None,
    as_json: bool,
) -> int:
    """Talk to the agent; it works with this host's tools, in your workspace.

    With PROMPT: one turn, then the end. Without: a conversation; the end of the input (Ctrl-D) or /exit ends it.

    Files of the workspace are read without a question, and written without one where somebody is there; of what else
    the tools do, what no rule decides is asked about on the terminal. Where nobody can be asked it is refused, and
    stderr says which rule would allow it. Rules are those of --settings and of the files that docs/control.md names,
    and those of --yes, by tool name. Ctrl-C aborts the turn that runs; twice leaves.

    The answer goes to stdout, everything else to stderr.
    """
    from ._chat import Chat, run_chat
    from .running import run_async

    chat = Chat(agent, model=model, workspace=workspace, rules=rules, max_steps=max_steps, as_json=as_json)
    return run_async(lambda interrupts: run_chat(chat, prompt, interrupts), as_json=as_json)

"""`antigravity-acp demo`: the flags. What it does is in :mod:`._demo`."""

import click

from .options import json_option


@click.command("demo", short_help="The main job, end to end, offline: see it work in seconds.")
@click.option("--keep", is_flag=True, help="Keep the workspace and the record of what the model was sent.")
@json_option
def command(keep: bool, as_json: bool) -> int:
    """Run one whole tool turn on the embedded engine with a scripted model; no account, key or network.

    In a fresh workspace the model asks for two tools in one message and then for a command, which a rule of the host
    denies. Everything but the model's words is real: Google's harness, the private MCP endpoint, the tools and their
    results, and the ledger, whose rows are shown at the end. Exit code 0 means that all of it was checked.
    """
    from ._demo import run_demo
    from .running import run_async

    return run_async(lambda _: run_demo(keep=keep, as_json=as_json), as_json=as_json)

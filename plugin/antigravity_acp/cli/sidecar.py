"""`antigravity-acp sidecar`: the adapter for a host in another process."""

import click


@click.command("sidecar", short_help="Serve a host that is not Python, over stdin and stdout.")
def command() -> int:
    """Serve a host in another language: JSON-RPC 2.0 over stdin and stdout, one object a line.

    Hosts start this; the end of the input ends it. The protocol is in docs/sidecar.md.
    """
    from antigravity_acp.sidecar.__main__ import main

    return main()

"""`antigravity-acp install`: the official server on this machine."""

import click

from .options import json_option


@click.command("install", short_help="Download Google's Antigravity server and check that it runs.")
@click.option("--verify", is_flag=True, help="Compare every installed byte; a damaged installation is replaced.")
@click.option("--from", "archive", metavar="FILE.zip", help="Install this copy of the archive instead of a download.")
@json_option
def command(verify: bool, archive: str | None, as_json: bool) -> int:
    """Download the official Antigravity server from Google, check it, and start it once.

    The release, its address and its hash are part of this version. A download that is cut or cancelled goes on where
    it stopped the next time. On a machine without a network, --from takes a copy of the archive, which must be the
    same byte for byte. Nothing is signed in.
    """
    from ._install import run_install
    from .running import run_async

    return run_async(lambda _: run_install(archive, verify=verify, as_json=as_json), as_json=as_json)

"""The command ``antigravity-acp``.

Owns: the process it runs in: its signals, its two output streams and its exit code. Everything a command starts is
ended before the process exits, also after Ctrl-C and SIGTERM.
Never: prints a traceback, a secret or text of a remote party in an error. Help imports nothing but `click`: what a
command needs to run is imported when it runs.
"""


def main() -> None:
    """The entry point; leaves the process with the exit code."""
    from .app import run

    run()

"""The one error of this wing.

Owns: the stages of an installation and the words for what can go wrong in each. Messages say what happened and what to
do; they hold no text that came from a server, an archive or an agent, and no path but those of the user's own machine.
"""

from typing import Final, Literal

Stage = Literal["platform", "disk", "lock", "download", "archive", "publish", "verify", "initialize"]

#: Every reason that an error may carry; stable words, for programs.
Reason = Literal[
    "platform",  # no release for this operating system and processor
    "cpu",  # the processor lacks an instruction that the program needs
    "disk-full",
    "disk",  # another fault of the file system
    "dns",
    "connect",
    "tls",
    "proxy",
    "timeout",
    "cut",  # the connection ended too early, more often than is retried
    "http-status",
    "redirect",
    "content",  # an answer that cannot be the archive: HTML, an encoding, no length
    "size",
    "hash",
    "archive",  # a hostile or broken archive
    "incomplete",  # the archive lacks a program that belongs to it
    "damaged",  # an installed file is not what its receipt says
    "busy",  # another process holds the lock, or a file that must go is in use
    "wrong-agent",  # `initialize` was answered by something else
    "no-answer",  # `initialize` was not answered
    "cancelled",
]

REASONS: Final[frozenset[str]] = frozenset(Reason.__args__)  # type: ignore[attr-defined]


class ProvisioningError(Exception):
    """The server cannot be put on this machine, or what is there cannot be used.

    :param stage: where it happened. :param reason: what it was. :param message: what happened and what to do.
    """

    def __init__(self, stage: Stage, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.stage: Stage = stage
        self.reason: Reason = reason
        self.message = message

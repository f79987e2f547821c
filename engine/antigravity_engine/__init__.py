"""An ACP agent on Google's Antigravity SDK: a program beside the host, reached over stdio only.

Run it with `antigravity-engine` or `python -m antigravity_engine`. Nothing of this package is meant to be imported by
the host; `antigravity_engine.script` (the scripted model) is usable on its own.
"""

__version__ = "0.1.0"

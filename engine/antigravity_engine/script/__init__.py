"""The scripted model: a loopback Gemini endpoint that answers from a YAML file instead of a model.

`load_script` reads and checks the file, `ScriptServer` serves it. Both are usable without the rest of the engine, for
example to give another Gemini client a model that says what a test needs.
"""

from antigravity_engine.script.rules import Script, ScriptError, load_script, parse_script
from antigravity_engine.script.server import ScriptServer

__all__ = ["Script", "ScriptError", "ScriptServer", "load_script", "parse_script"]

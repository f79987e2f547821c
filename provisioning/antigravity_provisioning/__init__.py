"""The official Antigravity server on this machine.

A wing of its own: imports nothing of ours. See ``README.md`` beside this package for what it promises.
"""

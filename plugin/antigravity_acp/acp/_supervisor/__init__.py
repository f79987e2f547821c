"""The supervisor: a small program between the host and one agent.

``program`` is run as ``python -I -S``, without this project's packages, so this package uses the standard library
alone, imports nothing of ours, and holds its imports down: their cost is added to every start of an agent. ``tree`` and
``folder`` are used by the host as well.
"""

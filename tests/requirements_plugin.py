"""Prints one line for each requirement that a collected test names; loaded by `requirements_report.py` only."""

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        for mark in item.iter_markers("requirement"):
            for key in mark.args:
                print(f"REQUIREMENT {key} {item.nodeid}")

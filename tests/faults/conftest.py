"""What `make faults` prints: the matrix, with what really came of each cell."""

from collections.abc import Iterator

import pytest
from helpers.fault_cells import ALL_STAGES, GROUPS

OUTCOMES = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", action="store_true", help="print the fault matrix as tables")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = {}


@pytest.fixture
def outcomes(pytestconfig: pytest.Config) -> dict[str, str]:
    """What came of the cells of this run, by id."""
    return pytestconfig.stash.setdefault(OUTCOMES, {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash.get(OUTCOMES, {})
    if not config.getoption("matrix", False) or not found:
        return
    for group in GROUPS:
        terminalreporter.section(group.name)
        for line in table({(cell.stage, cell.fault): found.get(cell.id, "?") for cell in group.cells}):
            terminalreporter.write_line(line)
    terminalreporter.write_line(f"\n{len(found)} cells")


def table(cells: dict[tuple[str, str], str], width: int = 150) -> Iterator[str]:
    """Rows are stages, columns are faults; as many columns side by side as fit."""
    stages = [stage for stage in ALL_STAGES if any(stage == one for one, _ in cells)]
    faults = list(dict.fromkeys(fault for _, fault in cells))
    head = max(map(len, stages))
    while faults:
        columns, used = [], head
        while faults and (not columns or used + 2 + _width(cells, faults[0]) <= width):
            used += 2 + _width(cells, faults[0])
            columns.append(faults.pop(0))
        yield ""
        yield "  ".join([" " * head, *(fault.ljust(_width(cells, fault)) for fault in columns)]).rstrip()
        for stage in stages:
            row = [cells.get((stage, fault), "").removeprefix("ACP_").ljust(_width(cells, fault)) for fault in columns]
            if any(map(str.strip, row)):
                yield "  ".join([stage.ljust(head), *row]).rstrip()


def _width(cells: dict[tuple[str, str], str], fault: str) -> int:
    texts = [text.removeprefix("ACP_") for (_, column), text in cells.items() if column == fault]
    return max(len(fault), *map(len, texts))

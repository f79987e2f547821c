"""One unfinished exchange: what it holds, how a continuation finds and proves it, and its deadlines."""

from .continuation import Verdict, judge_continuation
from .exchange import Exchange
from .opening import BARE
from .registry import TurnRegistry

__all__ = ["BARE", "Exchange", "TurnRegistry", "Verdict", "judge_continuation"]

"""Forty puzzles: kernels with holes and with faults, judged by the simulator on the result and on what they cost.

    moye puzzles                        # in a terminal: list, show, start, check, hint, solution, notebook
    check(7, "puzzles/p07_blocks.py")   # in Python or a notebook: a Verdict

The book (``book/``) has one file for each puzzle: statement, solution with marks, and how it is judged.
"""

from moye.puzzles.catalogue import Page, check, pages
from moye.puzzles.puzzle import Puzzle

__all__ = ["Page", "Puzzle", "check", "pages"]

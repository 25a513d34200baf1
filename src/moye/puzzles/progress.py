"""Which puzzles are solved, in a file of the folder where one works.

In: a folder.  Out: ``Progress``; ``puzzles/progress.json`` holds for each puzzle its last status and the attempts.

    progress = Progress(Path("puzzles")); progress.add(7, "passed"); progress.solved
"""

from __future__ import annotations

import json
from pathlib import Path

from moye.errors import MoyeError


class Progress:
    """What was checked so far; written at once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "progress.json"
        self.entries: dict[int, dict[str, object]] = {}
        if self.path.exists():
            try:
                told = json.loads(self.path.read_text(encoding="utf-8"))
                self.entries = {int(number): {"status": str(entry["status"]), "attempts": int(entry["attempts"]),
                                              "solved": bool(entry["solved"]), "hints": int(entry["hints"])}
                                for number, entry in told.items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise MoyeError(f"{self.path} is no record of puzzles: {error}",
                                hint="remove it to begin anew") from None

    @property
    def solved(self) -> set[int]:
        """The numbers of the puzzles that passed once."""
        return {number for number, entry in self.entries.items() if entry["solved"]}

    def status(self, number: int) -> str:
        """The last status of a puzzle; "" if it was never checked."""
        return str(self._entry(number)["status"])

    def add(self, number: int, status: str) -> None:
        """One more attempt."""
        entry = self._entry(number)
        entry |= {"status": status, "attempts": int(str(entry["attempts"])) + 1,
                  "solved": bool(entry["solved"]) or status == "passed"}
        self._keep(number, entry)

    def hint(self, number: int) -> int:
        """The number of the next hint, from 0, which is counted as given."""
        entry = self._entry(number)
        given = int(str(entry["hints"]))
        entry["hints"] = given + 1
        self._keep(number, entry)
        return given

    def _entry(self, number: int) -> dict[str, object]:
        return dict(self.entries.get(number, {"status": "", "attempts": 0, "solved": False, "hints": 0}))

    def _keep(self, number: int, entry: dict[str, object]) -> None:
        self.entries[number] = entry
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps({str(n): e for n, e in sorted(self.entries.items())}, indent=1) + "\n",
                                 encoding="utf-8")
        except OSError as error:
            raise MoyeError(f"cannot write {self.path}: {error.strerror}") from error

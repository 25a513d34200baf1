"""``python -m moye`` is the command ``moye``."""

from __future__ import annotations

from moye.cli import main

if __name__ == "__main__":
    main()

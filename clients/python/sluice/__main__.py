"""``sluice`` and ``python -m sluice``: the command, or how to install it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; without the libraries of its extra, say what to install and end with status 2."""
    try:
        from sluice.command import main as command
    except ModuleNotFoundError as missing:
        if missing.name not in ("click", "rich"):
            raise
        print(f"sluice: The command needs {missing.name}, which is part of sluice-client[command].", file=sys.stderr)
        sys.exit(2)
    command()


if __name__ == "__main__":
    main()

"""The command line as ``python -m counterpoise``."""

from __future__ import annotations

from counterpoise.cli import main

main()

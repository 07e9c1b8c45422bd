"""Freeze the golden tables of the named cases, or of all: ``python -m tests.pipeline.freeze_golden [CASE ...]``."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from counterpoise.pipeline.session import local_session
from tests.pipeline.conftest import SHOP
from tests.pipeline.golden import freeze, summed_up
from tests.pipeline.test_golden import CASES, captures_in, run


def main() -> None:
    spark, _ = local_session(records=1)
    with TemporaryDirectory() as scratch:
        base = Path(scratch)
        captures = captures_in(base, SHOP)
        for case in sys.argv[1:] or CASES:
            root = base / case
            freeze(case, summed_up(run(spark, captures, case, str(root), root)))


if __name__ == "__main__":
    main()

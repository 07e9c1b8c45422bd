"""What Spark forks its Python workers from: a process that has imported what tasks need, once for all, in memory they share."""

from __future__ import annotations

import gc
from importlib import import_module

from pyspark.daemon import manager

__all__ = ["main"]


def main() -> None:
    """Import, then do as `pyspark.daemon` does.

    Notes
    -----
    Each worker used to import for itself: a second of a processor and some 90 MB, in every one of them. No thread of Arrow's runs
    before its first task, and BLAS has none here, so it is safe to fork.
    """
    for module in ("pyspark.worker", "pyarrow.dataset", "pyarrow.acero", "counterpoise.pipeline.direct.direct"):
        import_module(module)
    gc.collect()
    # What is there by now stays: no collection in a worker looks at it, which would copy its pages.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()

"""What workers are forked from has imported what tasks need before it forks, and speaks to Spark as Spark's own does."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from pathlib import Path

from counterpoise.pipeline.session import LOCAL_SETTINGS, _alone


def test_a_worker_is_there_at_once_with_all_it_needs() -> None:
    words = [sys.executable, "-m", _alone(2, None)["spark.python.daemon.module"], "pyspark.worker"]
    told = {name.removeprefix("spark.executorEnv."): value for name, value in LOCAL_SETTINGS.items() if "executorEnv" in name}
    secret = {"PYTHON_WORKER_FACTORY_SECRET": "s", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**told, **secret}) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port)) as link:
            (worker,) = struct.unpack(">i", link.recv(4))
            assert worker != daemon.pid
            maps = Path(f"/proc/{worker}/maps").read_text()
            # What is imported later is imported again in the process of every task.
            assert [name for name in ("libarrow.so", "pyarrow/_acero", "pyarrow/_dataset") if name not in maps] == []
            # jemalloc's, which no pool uses, is the only thread that a worker does without.
            threads = {file.read_text().strip() for file in Path(f"/proc/{daemon.pid}/task").glob("*/comm")}
            assert len(threads - {"jemalloc_bg_thd"}) == 1
        daemon.stdin.close()
        daemon.wait(20)

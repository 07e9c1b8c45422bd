"""A standalone Spark cluster on this machine, for one test: a master, workers, and what is submitted to them; gone after it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tests.java import java_home

__all__ = ["SETTINGS", "Cluster", "free_port", "standalone"]

SPARK = Path(pyspark.__file__).parent
_WAIT_S = 600
_QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
_DAEMON = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _QUICK}
"""For master and workers alone: a server of Spark Connect would take them too, before ``spark.driver.memory``."""
_HERE = ("--host", "127.0.0.1", "--webui-port", "0")
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.shuffle.partitions": "2",
    # As in the session of the tests: of plans over few rows, compiling them and planning them anew is most of the time.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass
class Cluster:
    """What runs, in `folder`, where every process leaves its log; `address` is what ``SPARK_REMOTE`` may be."""

    folder: Path
    master: str = ""
    address: str = ""
    ports: list[int] = field(default_factory=list)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)

    def start(self, name: str, words: list[str], more: Mapping[str, str] | None = None) -> None:
        """A process, with children of its own in one group; it writes to ``<name>.log``."""
        env = {key: value for key, value in os.environ.items() if key not in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")}
        env |= {
            "JAVA_HOME": java_home(),
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        env |= more or {}
        with self.log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                words, env=env, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def run(self, name: str, words: list[str], more: Mapping[str, str] | None = None) -> int:
        """The same to its end; returns the exit code."""
        self.start(name, words, more)
        code = self.running[name].wait(_WAIT_S)
        self.stop(name)
        return code

    def submit(self, *words: str, **settings: str) -> list[str]:
        """The command line of ``spark-submit`` to this cluster."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        conf = [word for pair in (SETTINGS | given).items() for word in ("--conf", "=".join(pair))]
        return [str(SPARK / "bin" / "spark-submit"), "--master", self.master, *conf, *words]

    @contextmanager
    def connect(self) -> Iterator[None]:
        """While within: a server of Spark Connect that runs on this cluster, at `address`."""
        port = free_port()
        server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        self.start("connect", self.submit(*server, spark_connect_grpc_binding_port=str(port), spark_log_level="INFO"))
        self.ports.append(port)
        self.said("connect", r"(Spark Connect server started at)")
        self.address = f"sc://127.0.0.1:{port}"
        yield
        self.stop("connect")

    def said(self, name: str, pattern: str) -> str:
        """What a process says sooner or later; fails with the end of its log when it ends before, or takes too long."""
        until = time.monotonic() + _WAIT_S
        while time.monotonic() < until:
            ended = self.running[name].poll() is not None
            found = re.search(pattern, self.text(name))
            if found:
                return found.group(1)
            if ended:
                break
            time.sleep(0.1)
        raise AssertionError(f"{name} ended, or did not say within {_WAIT_S} s: {pattern}\n{self.text(name)[-3000:]}")

    def stop(self, name: str) -> bool:
        """End a process and all that it started, at once when it does not end by itself; whether nothing of it is left."""
        if name in self.stopped:
            return True
        process = self.running[name]
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.stopped.add(name)
                return True
            process.poll()
            time.sleep(0.1)
        return False

    def log(self, name: str) -> Path:
        """Where a process writes."""
        return self.folder / f"{name}.log"

    def text(self, name: str) -> str:
        """What it has written."""
        return self.log(name).read_text(encoding="utf-8", errors="replace")


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Master and workers of one core each; executors run this Python, so they find what is installed here."""
    cluster = Cluster(folder)
    spark_class = str(SPARK / "bin" / "spark-class")
    try:
        cluster.start("master", [spark_class, "org.apache.spark.deploy.master.Master", *_HERE, "--port", "0"], _DAEMON)
        cluster.master = cluster.said("master", r"Starting Spark master at (spark://\S+)")
        cluster.ports.append(int(cluster.master.rpartition(":")[2]))
        for number in range(workers):
            place = [*_HERE, "--cores", "1", "--memory", "1g", "--work-dir", f"work-{number}", cluster.master]
            cluster.start(f"worker-{number}", [spark_class, "org.apache.spark.deploy.worker.Worker", *place], _DAEMON)
        for number in range(workers):
            cluster.said(f"worker-{number}", r"(Successfully registered with master)")
        yield cluster
    finally:
        left = [name for name in reversed(cluster.running) if not cluster.stop(name)]
        assert not left, f"some of their processes are still there: {left}"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port

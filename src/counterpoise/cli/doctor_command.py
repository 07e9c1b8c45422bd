"""`counterpoise doctor`: what is installed and reachable, what is missing, and what to do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TypeVar

import click

from counterpoise._version import __version__
from counterpoise.cli.inputs import FILE, cluster_settings, need
from counterpoise.cli.render import console, table_of
from counterpoise.errors import CounterpoiseError, MissingExtraError
from counterpoise.extras import pip_install

__all__ = ["Check", "command"]

T = TypeVar("T")

_MEMORY, _DISK = 3, 1
"""GiB: the JVM of an audit takes up to 2, its Python workers the rest; blocks between scan and fold are on disk."""
_DESCRIBE = "for lag: kafka-acls --add --allow-principal User:NAME --operation Describe --topic '*'"
_REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[(.*?)\])?[^;]*?(?:>=([\d.]+)|;|$)")
_JAVA = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"


@dataclass(frozen=True)
class Check:
    """A thing that was checked: there (`ok`), missing, or (None) not needed by everybody; what was found; and what to do."""

    what: str
    ok: bool | None
    found: str
    to_do: str = ""


@click.command("doctor")
@click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT", help="Check this cluster too: reachable, login, rights.")
@click.option("--command-config", "config", type=FILE, help="Properties file, as for Kafka's tools.")
@click.option("--out", default=".", type=FILE, help="Folder whose disk is checked. Default: this one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per check instead of a table.")
def command(bootstrap: str | None, config: Path | None, out: Path, as_json: bool) -> None:
    """Check Java, extras, clients, memory and disk, and with --bootstrap-server a cluster; say what to do.

    Exit code 0: nothing is missing. 1: something is. An extra that is not installed is listed with "-", and is not missing.

    \b
    Example:
      counterpoise doctor --bootstrap-server broker:9092 --command-config client.properties
    """
    checks = [*_extras(), *_java(), *_clients(), *_machine(out)]
    if bootstrap is not None or config is not None:
        need("--bootstrap-server", "live", "confluent_kafka", "pyarrow")
        checks += _cluster(bootstrap, config)
    if as_json:
        for one in checks:
            click.echo(json.dumps(asdict(one)))
    else:
        words = {True: "ok", False: "MISSING", None: "-"}
        rows = [(one.what, words[one.ok], one.found, one.to_do) for one in checks]
        console().print(table_of(f"counterpoise {__version__}", ("what", "", "found", "what to do"), rows))
    sys.exit(int(any(one.ok is False for one in checks)))


def _extras() -> Iterator[Check]:
    """Each extra: its packages, and those that are too old. An extra of which a package is absent counts as not installed."""
    for extra in sorted({*(metadata.metadata("counterpoise").get_all("Provides-Extra") or ())} - {"all"}):
        found = [(name, _version(name), least) for name, least in dict.fromkeys(_packages("counterpoise", extra))]
        absent = [name for name, version, _ in found if version is None]
        old = [f"{name} {least}" for name, version, least in found if version and _numbers(version) < _numbers(least)]
        words = absent or [f"{name} {version}" for name, version, _ in found]
        shown = ("lacks " if absent else "") + ", ".join(dict.fromkeys(words))  # two extras may name one package
        to_do = pip_install(extra) + (f", which has {', '.join(old)} or newer" if old else "")
        yield Check(f"extra {extra}", None if absent else not old, shown, to_do if absent or old else "")


def _packages(package: str, extra: str) -> Iterator[tuple[str, str]]:
    """The packages of an extra, with the oldest version of each; of the extras that it names, these too."""
    for line in metadata.metadata(package).get_all("Requires-Dist") or ():
        if re.search(rf"extra == ['\"]{extra}['\"]", line):
            name, extras, least = _REQUIREMENT.findall(line)[0]
            if name != "counterpoise":
                yield name, least
            for each in filter(None, extras.split(",")) if _version(name) else ():
                yield from _packages(name, each)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _java() -> Iterator[Check]:
    """The Java that Spark would start."""
    if _version("pyspark") is None:
        return
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except OSError as error:
        yield Check("Java", False, f"{program}: {error.strerror}", _JAVA)
        return
    version = re.search(r'version "(\d+)[^"]*"', output)
    ok = version is not None and int(version[1]) >= 17
    yield Check("Java", ok, f"{program}: {version[0] if version else 'no version'}", "" if ok else _JAVA)


def _clients() -> Iterator[Check]:
    """Whether the installed releases of the clients have the interfaces that the assignors need."""
    for package, module in (("kafka-python", "kafka_python"), ("aiokafka", "aiokafka")):
        if _version(package) is not None:
            what = f"assignors in {package}"
            try:
                assignors = import_module(f"counterpoise.clients.{module}")
            except MissingExtraError as error:
                yield Check(what, False, f"cannot be imported: {error.__cause__}", f"install another release of {package}")
            else:
                yield _try(what, assignors.StickyAssignor, lambda _: "work")


def _machine(out: Path) -> Iterator[Check]:
    """Memory (where there is /proc) and disks."""
    about = Path("/proc/meminfo")
    memory = re.search(r"MemAvailable: +(\d+)", about.read_text()) if about.exists() else None
    if memory is not None:
        free = int(memory[1]) / 2**20
        yield _enough("memory", free, _MEMORY, f"{free:.1f} GiB available", "or set SPARK_DRIVER_MEMORY (its default is 2g)")
    local = Path(os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir())
    for what, folder, less in (("disk of --out", out, "give another --out"), ("disk of Spark", local, "set SPARK_LOCAL_DIRS")):
        there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
        free = shutil.disk_usage(there).free / 2**30
        yield _enough(what, free, _DISK, f"{there}: {free:,.1f} GiB free", f"or {less}")


def _enough(what: str, free: float, least: float, found: str, otherwise: str) -> Check:
    return Check(what, free >= least, found, "" if free >= least else f"free some: an audit needs {least} GiB; {otherwise}")


def _cluster(bootstrap: str | None, config: Path | None) -> Iterator[Check]:
    """Reachable, and the rights of capture: on the offsets topic, and on the topics whose log ends are sampled."""
    from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC, Cluster, check_leaders
    from counterpoise.pipeline.capture.fetch import read_range

    settings = cluster_settings(bootstrap, config)
    cluster = Cluster(settings, timeout=10)
    reached = _try(
        "cluster", lambda: cluster.cluster_id, lambda name: f"{settings['bootstrap.servers']}: reached, cluster id {name}"
    )
    yield reached
    if not reached.ok:
        return

    def read() -> int:
        partitions = cluster.partitions([OFFSETS_TOPIC])
        start, end = cluster.offsets(partitions, "start"), cluster.offsets(partitions, "stable")
        check_leaders(partitions, start, end, lost="groups cannot be recorded")
        filled = [one for one in partitions if end[one] > start[one]]
        return sum(len(batch) for one in filled[:1] for batch in read_range(settings, one, end[one] - 1, end[one], lenient=True))

    yield _try(OFFSETS_TOPIC, read, lambda _: "can be read")
    topics = _try("topics", lambda: len(cluster.topics().keys() - {OFFSETS_TOPIC}), lambda n: f"{n} can be described")
    yield Check("topics", None, topics.found, _DESCRIBE) if topics.found.startswith("0 ") else topics


def _try(what: str, call: Callable[[], T], words: Callable[[T], str]) -> Check:
    try:
        return Check(what, True, words(call()))
    except CounterpoiseError as error:
        found, _, to_do = str(error).partition("; ")
        return Check(what, False, found, to_do)

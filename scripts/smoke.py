"""smoke.py core|all|kafka-python|aiokafka WHEEL: tries an installed counterpoise; exits 1 at the first thing amiss."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

EXTRAS = (
    *("pyspark", "pyarrow", "pandas", "jinja2", "click", "rich", "kafka", "aiokafka", "confluent_kafka", "prometheus_client"),
    *("duckdb", "aws_msk_iam_sasl_signer"),
)
NAMED_EXTRAS = {"aiokafka", "all", "cli", "connect", "follow", "kafka-python", "live", "msk", "report", "spark", "sql"}
CLIENTS = {
    "kafka-python": {"kafka-python"},
    "aiokafka": {"aiokafka", "async-timeout", "packaging", "typing-extensions"},
}
"""What each extra for a consumer brings."""
MEGABYTES, SECONDS = 130, 0.1
"""CPU time of counterpoise's own modules; NumPy and the client take twice as long."""
GROUP = {
    "topics": {"t1": 3},
    "members": [{"id": "a", "topics": ["t1"], "owned": {"t1": [2]}, "generation": 1}, {"id": "b", "topics": ["t1"]}],
}


def main(kind: str, wheel: str) -> None:
    """Run every check of one kind of installation."""
    if kind in CLIENTS:
        check_consumer(kind)
        return
    check_files(wheel)
    check_import()
    check_plan()
    if kind == "all":
        check_command()
    print(f"wheel, {kind}: {metadata.version('counterpoise')} imports, plans{' and commands' * (kind == 'all')} as it should")


def check_files(wheel: str) -> None:
    """The wheel holds the type marker, the licence, and every file of the package, not only its modules."""
    names = set(zipfile.ZipFile(wheel).namelist())
    claim("counterpoise/py.typed" in names, "py.typed is not in the wheel")
    claim(any(PurePosixPath(name).name == "LICENSE" for name in names), "the licence is not in the wheel")
    claim(
        any(name.startswith("counterpoise/report/") and not name.endswith(".py") for name in names), "no template is in the wheel"
    )
    claim(all(name.startswith("counterpoise") for name in names), "the wheel holds files of no package")
    extras = set(metadata.metadata("counterpoise").get_all("Provides-Extra") or ())
    claim(extras == NAMED_EXTRAS, f"the extras are {sorted(extras)}")


def check_import() -> None:
    """Importing the package loads neither an extra nor SciPy, and comes from the installation."""
    code = "import counterpoise, json, sys; print(json.dumps([counterpoise.__file__, sorted(sys.modules)]))"
    home, modules = json.loads(run(sys.executable, "-I", "-c", code))
    claim("site-packages" in Path(home).parts, f"counterpoise comes from {home}")
    loaded = {name.partition(".")[0] for name in modules}
    claim(not loaded & {*EXTRAS, "scipy"}, f"import counterpoise loads {sorted(loaded & {*EXTRAS, 'scipy'})}")


def check_consumer(client: str) -> None:
    """What a consumer installs, without pip: only these packages, at most 130 MB, and 0.1 s for the import."""
    home = Path(sysconfig.get_path("purelib"))
    tools = ("pip", "setuptools", "_distutils_hack", "pkg_resources", "distutils-precedence")
    files = [file for file in home.rglob("*") if file.is_file() and not file.relative_to(home).parts[0].startswith(tools)]
    size = sum(file.stat().st_size for file in files) / 1e6
    brought = {one.name.lower().replace("_", "-") for one in metadata.distributions()} - {*tools}
    claim(brought == {"counterpoise", "msgspec", "numpy"} | CLIENTS[client], f"{client} brings {', '.join(sorted(brought))}")
    claim(size <= MEGABYTES, f"{client}: a consumer installs {size:.0f} MB; the limit is {MEGABYTES}")
    module = f"counterpoise.clients.{client.replace('-', '_')}"
    code = (
        f"from time import process_time as now; start = now(); import numpy, {client.partition('-')[0]}; others = now(); "
        f"import {module}; print(now() - others, others - start)"
    )
    own, others = min([float(one) for one in run(sys.executable, "-I", "-c", code).split()] for _ in range(10))
    claim(own <= SECONDS, f"import {module} takes {own:.2f} s of CPU time of its own; the limit is {SECONDS}")
    print(f"wheel, {client}: {size:.0f} MB in all; CPU time of the import: {own:.2f} s, and NumPy and the client {others:.2f} s")


def check_plan() -> None:
    """A tiny group is planned, keeps what is owned, and is proven right."""
    import counterpoise

    group = counterpoise.Group.from_json(json.dumps(GROUP))
    for name in counterpoise.strategies():
        loads = counterpoise.assign(group, name).loads
        claim(sorted(loads.values()) == [1, 2], f"{name}: loads are {loads}")
    plan = counterpoise.assign(group, "sticky")
    claim(not counterpoise.verify(group, plan), f"the sticky plan for {GROUP} is not proven right")
    claim(2 in plan.target["a"]["t1"], "sticky does not keep what is owned")
    loaded = {name.partition(".")[0] for name in sys.modules}
    claim(not loaded & set(EXTRAS), f"planning loads {sorted(loaded & set(EXTRAS))}")


def check_command() -> None:
    """Every extra's packages are there, the command explains itself, and plans from a file."""
    for name in EXTRAS:
        __import__(name)
    command = str(Path(sys.executable).parent / "counterpoise")
    claim("audit" in run(command, "--help"), "counterpoise --help does not name audit")
    Path("group.json").write_text(json.dumps(GROUP))
    answer = json.loads(run(command, "plan", "group.json", "--strategy", "sticky", "--json"))
    claim(bool(answer), "counterpoise plan --json prints nothing")


def run(*command: str) -> str:
    """The standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    claim(done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def claim(holds: bool, otherwise: str) -> None:
    """End with a message unless something holds."""
    if not holds:
        sys.exit(f"wheel: {otherwise}")


if __name__ == "__main__":
    main(*sys.argv[1:])

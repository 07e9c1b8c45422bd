"""Rules of the house as tests. Each rule is a function of a tree of files, and is seen to fail on a planted fault."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Container, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Lowest first: a module imports only from its own layer and from layers before it.
LAYERS = (
    "errors", "extras", "wire", "model", "snapshot", "solver", "assignors", "laws", "metrics", "planning", "explanation",
    "simulation", "testing", "clients", "pipeline", "report", "cli",
)  # fmt: skip
CORE = LAYERS[: LAYERS.index("clients")]
PROCESS_WIDE = {"ctypes", "gc", "locale", "resource", "signal"}
EXTRAS = {"aiokafka", "click", "confluent_kafka", "jinja2", "kafka", "pandas", "prometheus_client", "pyarrow", "pyspark", "rich"}
LONGEST_MODULE, LONG_MODULE = 400, 250
NOT_TEXT = {".bin", ".gz", ".jpg", ".parquet", ".png", ".zst"}
# Written in pieces so that this file obeys the rule it holds.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:work|root|home/\w+|tmp/\w+)/|/Us" + r"ers/\w+")
REGISTRY_HOST = re.compile(
    "|".join(("py" + r"pi\.org", "python" + "hosted", r"repo1?\.mav" + "en", r"registry\.np" + "mjs", r"deb\.deb" + "ian"))
)
HOW_WORK_IS_DONE = re.compile(r"\b(?:iss" + r"ue \d+\b|foun" + "der|sub-?ag" + r"ents?\b|CE" + r"O\b|sha" + "red/(?:capt|vect))")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
NOT_RUN = re.compile(r"pytest\.(?:mark\.)?(?:sk" + "ip|xf" + "ail|importor" + r"skip)|unittest\.sk" + "ip|__te" + "st__ = False")

Fault = str
Rule = Callable[[Path, list[str]], Iterator[Fault]]


def tracked() -> list[str]:
    """Paths of the files git knows or would add, below the root of the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(name for name in set(listed.stdout.splitlines()) if (ROOT / name).is_file())


def modules(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("src/counterpoise/") and name.endswith(".py")]


@cache
def parse(root: Path, name: str) -> ast.Module:
    return ast.parse((root / name).read_text(encoding="utf-8"), name)


def texts(root: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if Path(name).suffix not in NOT_TEXT:
            yield name, (root / name).read_text(encoding="utf-8")


def imports_only_lower_layers(root: Path, names: list[str]) -> Iterator[Fault]:
    """A module imports, from this package, only its own layer and lower ones; the package itself belongs to no layer."""
    for name in modules(names):
        layer = Path(name).relative_to("src/counterpoise").parts[0].removesuffix(".py")
        if layer in {"__init__", "__main__", "_version"}:
            continue
        if layer not in LAYERS:
            yield f"{name}: {layer} is no layer"
            continue
        for target, line in _own_imports(parse(root, name)):
            if target not in {"_version", layer} and (target not in LAYERS or LAYERS.index(target) > LAYERS.index(layer)):
                yield f"{name}:{line}: {layer} imports {target or 'the package itself'}"


def _own_imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            wanted = [f"{base}.{alias.name}" for alias in node.names] if base == "counterpoise" else [base]
        else:
            continue
        for each in wanted:
            package, _, rest = each.partition(".")
            if package == "counterpoise":
                yield rest.partition(".")[0], node.lineno


def core_leaves_the_process_alone(root: Path, names: list[str]) -> Iterator[Fault]:
    """No module of the core imports what changes the whole process: allocator, limits, signals, locale, garbage collector."""
    for name in modules(names):
        if Path(name).relative_to("src/counterpoise").parts[0].removesuffix(".py") in CORE:
            for node in ast.walk(parse(root, name)):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    base = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                    yield from (f"{name}:{node.lineno}: imports {one}" for one in base if one.partition(".")[0] in PROCESS_WIDE)


def no_imports_in_a_circle(root: Path, names: list[str]) -> Iterator[Fault]:
    """No modules import each other in a circle, at import, inside a function, or for type checkers alone."""
    package = {name.removeprefix("src/counterpoise/"): parse(root, name) for name in modules(names)}
    file_of = {".".join(["counterpoise", *Path(name).with_suffix("").parts]).removesuffix(".__init__"): name for name in package}
    goes_to = {name: {file_of[each] for each in _imports(tree, file_of)} - {name} for name, tree in package.items()}
    reached = {name: _reached(name, goes_to) for name in goes_to}
    circles = {", ".join(sorted(each for each in reached[name] if name in reached[each])) for name in goes_to}
    yield from (f"circle: {circle}" for circle in sorted(circles - {""}))


def _imports(tree: ast.AST, known: Container[str]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:  # a name of a package is a module, or lies in its __init__
                inside = f"{node.module}.{alias.name}"
                yield from [name for name in (inside, node.module or "") if name in known][:1]
        else:
            yield from _imports(node, known)


def _reached(start: str, goes_to: dict[str, set[str]]) -> set[str]:
    """Modules that a module imports, directly or through others; itself only in a circle."""
    found: set[str] = set()
    waiting = list(goes_to[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += goes_to[name]
    return found


def exports_are_complete(root: Path, names: list[str]) -> Iterator[Fault]:
    """Every module has an `__all__`, sorted as ruff sorts it, that names each public class and function, and nothing unknown."""
    for name in modules(names):
        tree = parse(root, name)
        if not tree.body[1:] or Path(name).name in {"_version.py", "__main__.py"}:
            continue
        listed = _exported(tree)
        if listed is None:
            yield f"{name}: no __all__"
            continue
        if listed != sorted(listed, key=_export_order) or len(set(listed)) != len(listed):
            yield f"{name}: __all__ is not sorted"
        defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        for missing in sorted(each for each in defined - set(listed) if not each.startswith("_")):
            yield f"{name}: {missing} is public but not in __all__"
        if "__getattr__" not in defined:
            for unknown in sorted(set(listed) - _bound(tree)):
                yield f"{name}: __all__ names {unknown}, which is not there"


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            value = getattr(node, "value", None)
            return list(ast.literal_eval(value)) if value is not None else None
    return None


def _export_order(name: str) -> tuple[int, list[tuple[int, str]]]:
    # As ruff sorts: CONSTANTS, then Classes, then the rest; numbers inside a name by their value.
    parts = [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, parts)


def _bound(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def modules_say_what_they_do(root: Path, names: list[str]) -> Iterator[Fault]:
    """Every module's first line says what it does, and every public function and method has a docstring."""
    for name in modules(names):
        tree = parse(root, name)
        if not ast.get_docstring(tree):
            yield f"{name}: no docstring"
        owners: list[ast.Module | ast.ClassDef] = [tree]
        owners += [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        for owner in owners:
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not ast.get_docstring(node):
                    overload = any(ast.unparse(each) in {"overload", "typing.overload"} for each in node.decorator_list)
                    override = any(ast.unparse(each) in {"override", "typing.override"} for each in node.decorator_list)
                    if not overload and not override:
                        yield f"{name}:{node.lineno}: {node.name} has no docstring"


def modules_stay_small(root: Path, names: list[str]) -> Iterator[Fault]:
    """Over 400 lines a module's docstring says why ('Long because ...'); at most one module in eight has over 250."""
    counts: dict[str, int] = {}
    for name in modules(names):
        text = (root / name).read_text(encoding="utf-8")
        reason = re.search(r"\bLong because\b", ast.get_docstring(ast.parse(text)) or "")
        counts[name] = 0 if reason else len(text.splitlines())
        if counts[name] > LONGEST_MODULE:
            yield f"{name}: {counts[name]} lines; split it, or say why in its docstring ('Long because ...')"
    long = [name for name, count in counts.items() if LONG_MODULE < count <= LONGEST_MODULE]
    if len(long) * 8 > len(counts):
        yield f"too many modules of over {LONG_MODULE} lines: {', '.join(long)}"


def no_place_of_our_own(root: Path, names: list[str]) -> Iterator[Fault]:
    """No tracked text names a folder of somebody's machine, the host of a package registry, or how the work is shared out."""
    for name, text in texts(root, names):
        for pattern in (MACHINE_PATH, REGISTRY_HOST, HOW_WORK_IS_DONE):
            found = pattern.search(text)
            if found:
                yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()!r}"


def nothing_is_left_undone(root: Path, names: list[str]) -> Iterator[Fault]:
    """No note of work to come, and no test that does not run."""
    for name, text in texts(root, [name for name in names if name.startswith(("src/", "tests/", "scripts/", "benchmarks/"))]):
        for pattern in (UNFINISHED, NOT_RUN) if name.endswith(".py") else (UNFINISHED,):
            found = pattern.search(text)
            if found:
                yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()!r}"


def papers_are_there(root: Path, names: list[str]) -> Iterator[Fault]:
    """The papers a reader expects exist, and the changelog has a place for what is not released yet."""
    for paper in ("LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "docs/glossary.md"):
        if paper not in names:
            yield f"{paper}: missing"
        elif paper == "CHANGELOG.md" and "## Unreleased" not in (root / paper).read_text(encoding="utf-8"):
            yield f"{paper}: no Unreleased section"


HEAD = '"""A module."""\n\n__all__ = ["f"]\n\n\ndef f():\n    """Do."""\n'
FILES_OF_A_CLEAN_TREE = {
    "LICENSE": "free",
    "CHANGELOG.md": "# Changes\n\n## Unreleased\n",
    "CONTRIBUTING.md": "rules",
    "docs/glossary.md": "words",
    "src/counterpoise/__init__.py": '"""The package."""\n',
    "src/counterpoise/model/__init__.py": '"""A layer."""\n',
    "src/counterpoise/model/a.py": HEAD + "\n\nfrom counterpoise.errors import WireError\n",
    "src/counterpoise/model/b.py": HEAD
    + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import counterpoise.model.c\n",
    "src/counterpoise/model/c.py": HEAD,
    "src/counterpoise/model/long.py": HEAD.replace("A module.", "A table. Long because it is one.") + "x = 1\n" * 500,
    "tests/test_a.py": "def test_a():\n    assert 1 == 1\n",
}
A = "src/counterpoise/model/a.py"
PLANTED: list[tuple[Rule, str, str, str]] = [
    (imports_only_lower_layers, A, HEAD + "from counterpoise.laws import verify\n", "model imports laws"),
    (imports_only_lower_layers, A, HEAD + "from counterpoise import report\n", "model imports report"),
    (imports_only_lower_layers, A, HEAD + "import counterpoise\n", "imports the package itself"),
    (imports_only_lower_layers, A, HEAD + "def g():\n    import counterpoise.cli.main\n", "model imports cli"),
    (imports_only_lower_layers, "src/counterpoise/helpers/b.py", HEAD, "helpers is no layer"),
    (core_leaves_the_process_alone, A, HEAD + "def g():\n    import ctypes.util\n", "imports ctypes.util"),
    (core_leaves_the_process_alone, A, HEAD + "from resource import setrlimit\n", "imports resource"),
    (
        no_imports_in_a_circle,
        "src/counterpoise/model/c.py",
        HEAD + "from counterpoise.model import b\n",
        "model/b.py, model/c.py",
    ),
    (
        no_imports_in_a_circle,
        "src/counterpoise/model/c.py",
        HEAD + "def g():\n    from counterpoise.model.b import f\n",
        "model/c.py",
    ),
    (exports_are_complete, A, '"""A module."""\n\n\ndef f():\n    """Do."""\n', "no __all__"),
    (exports_are_complete, A, HEAD + "class G: ...\n", "G is public but not in __all__"),
    (exports_are_complete, A, HEAD.replace('["f"]', '["f", "g"]'), "names g, which is not there"),
    (exports_are_complete, A, HEAD.replace('["f"]', '["f", "G"]') + "G = 1\n", "not sorted"),
    (modules_say_what_they_do, A, "__all__ = []\n", "no docstring"),
    (modules_say_what_they_do, A, HEAD.replace('"""Do."""', "return 1"), "f has no docstring"),
    (modules_say_what_they_do, A, HEAD + "class C:\n    def m(self): ...\n", "m has no docstring"),
    (modules_stay_small, A, HEAD + "x = 1\n" * 400, "model/a.py: 407 lines; split it"),
    (modules_stay_small, A, HEAD + "x = 1\n" * 300, "too many modules of over 250 lines: " + A),
    (no_place_of_our_own, "docs/glossary.md", "see /wo" + "rk/main/x", "glossary.md:1"),
    (no_place_of_our_own, "docs/glossary.md", "cd /ho" + "me/jo/x", "glossary.md:1"),
    (no_place_of_our_own, "requirements.lock", "ok\n--index-url https://py" + "pi.org/simple", "requirements.lock:2"),
    (no_place_of_our_own, "CONTRIBUTING.md", "as iss" + "ue 3 says", "CONTRIBUTING.md:1"),
    (nothing_is_left_undone, A, HEAD + "# TO" + "DO: more\n", "model/a.py:8"),
    (nothing_is_left_undone, "tests/test_a.py", "@pytest.mark.sk" + "ip\ndef test_a(): ...\n", "test_a.py:1"),
    (nothing_is_left_undone, "tests/test_a.py", "@pytest.mark.xf" + "ail\ndef test_a(): ...\n", "test_a.py:1"),
    (papers_are_there, "CHANGELOG.md", "# Changes\n", "no Unreleased section"),
    (papers_are_there, "LICENSE", "", "LICENSE: missing"),
]
RULES = list(dict.fromkeys(rule for rule, *_ in PLANTED))


def tree_of(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return sorted(files)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_this_repository_obeys(rule: Rule) -> None:
    """Every rule holds for every file git knows."""
    faults = list(rule(ROOT, tracked()))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_clean_tree_obeys(rule: Rule, tmp_path: Path) -> None:
    """No rule cries over a tree without faults."""
    assert list(rule(tmp_path, tree_of(tmp_path, FILES_OF_A_CLEAN_TREE))) == []


PLANTED_IDS = [f"{rule.__name__}-{number}" for number, (rule, *_) in enumerate(PLANTED)]


@pytest.mark.parametrize(("rule", "name", "text", "words"), PLANTED, ids=PLANTED_IDS)
def test_a_planted_fault_is_found(rule: Rule, name: str, text: str, words: str, tmp_path: Path) -> None:
    """One fault in an otherwise clean tree is the one fault the rule reports (an empty text removes the file)."""
    files = {each: content for each, content in {**FILES_OF_A_CLEAN_TREE, name: text}.items() if content}
    faults = list(rule(tmp_path, tree_of(tmp_path, files)))
    assert len(faults) == 1
    assert words in faults[0]


def modules_after(code: str) -> set[str]:
    """Names of the modules a fresh interpreter holds after running some code."""
    command = [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"]
    return set(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def test_importing_the_package_loads_no_extra_and_little_else() -> None:
    """`import counterpoise` holds neither an extra nor SciPy nor msgspec, and adds at most 30 modules to NumPy's."""
    bare = modules_after("import numpy")
    loaded = modules_after("import counterpoise") - bare
    assert {name for name in loaded if name.partition(".")[0] in EXTRAS | {"scipy", "msgspec"}} == set()
    assert len(loaded) <= 30


def test_planning_loads_no_extra() -> None:
    """The whole public face of the package can be had without any extra."""
    loaded = modules_after("import counterpoise\nfor name in counterpoise.__all__: getattr(counterpoise, name)")
    assert {name for name in loaded if name.partition(".")[0] in EXTRAS} == set()


def test_the_build_knows_the_same_layers() -> None:
    """The import contract in pyproject.toml names these layers in this order, and each is there."""
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract = next(each for each in settings if each["type"] == "layers")
    assert tuple(reversed(contract["layers"])) == LAYERS
    package = ROOT / "src" / "counterpoise"
    there = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}
    assert there == {*LAYERS, "__init__", "__main__", "_version"}


def test_the_public_names_of_the_package_are_sorted() -> None:
    """`counterpoise.__all__` is sorted and every name in it can be had."""
    import counterpoise

    assert list(counterpoise.__all__) == sorted(counterpoise.__all__, key=_export_order)
    for name in counterpoise.__all__:
        assert getattr(counterpoise, name) is not None

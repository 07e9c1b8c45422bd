"""Hook of MkDocs (mkdocs.yml): pages of the site that are generated from other files, so that nothing is written twice.

The home page is README.md; pages about the Python API and the command line come from the sources; `examples.md` shows files of
`examples`. Links then lead to pages of the site.
"""

from __future__ import annotations

import html
import inspect
import json
import re
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

import counterpoise
from counterpoise.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md"} | {name: name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
EXAMPLES = {
    "examples/kafka_python_consumer.py": "A consumer on kafka-python",
    "examples/aiokafka_consumer.py": "A consumer on aiokafka",
    "examples/rolling_upgrade.py": "A rolling upgrade",
    "examples/metrics_prometheus.py": "Metrics for Prometheus",
    "examples/metrics_opentelemetry.py": "Metrics for OpenTelemetry",
    "examples/own_strategy": "A package with a strategy",
    "examples/notebooks": "Notebooks",
    "examples/monitoring": "Monitoring",
    "examples/deploy": "Operations",
}
API = {
    "Consumers": (
        "counterpoise.clients.kafka_python",
        "counterpoise.clients.aiokafka",
        "counterpoise.clients.rebalance_listener.rebalance_listener",
        "counterpoise.clients.rebalance_report.Rebalance",
        "counterpoise.planning.lead.Lead",
        "counterpoise.clients.lag_source.live_lag",
        "counterpoise.clients.confluent.share_out",
        "counterpoise.clients.confluent.PlannedConsumer",
    ),
    "The audit on Spark": (
        "counterpoise.pipeline.audit.audit",
        "counterpoise.pipeline.audit.AuditResult",
        "counterpoise.pipeline.source.scope.AuditScope",
        "counterpoise.pipeline.dataframe_api.rebalances",
        "counterpoise.pipeline.capture.datasource.KafkaOffsets",
    ),
    "A strategy of your own": (
        "counterpoise.assignors.strategy.Strategy",
        "counterpoise.assignors.strategy.Option",
        "counterpoise.testing.check_strategy",
        "counterpoise.testing.random_problem",
    ),
    "Errors": ("counterpoise.errors",),
}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    generated = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in PAGES.items()}
    generated |= {"api.md": api(), "commands.md": commands(), "examples.md": examples()}
    for page, text in generated.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the place that a file has on the site."""
    return re.sub(r"\]\(([^)#\s]*)((?:#[^)]*)?)\)", lambda link: f"]({place(link[1])}{link[2]})", markdown)


def place(target: str) -> str:
    """The place on the site of a file of the repository, as a page of docs or README.md links to it."""
    path = target.removeprefix("../").removeprefix("docs/")
    if path in EXAMPLES:
        return f"examples.md#{anchor(EXAMPLES[path])}"
    return PAGES.get(path, path)


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def api() -> str:
    """What `counterpoise` exports, then the public modules beside it."""
    exported = sorted(set(counterpoise.__all__) - {"__version__", "CounterpoiseError"}, key=str.lower)
    parts = ["# Python", "What can be imported? `import counterpoise` needs no extra and loads these names on first use."]
    for title, names in {"counterpoise": map(identifier, exported), **API}.items():
        parts += [f"## {title}", *(f"::: {name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def identifier(name: str) -> str:
    """The place of a name that `counterpoise` exports (`counterpoise.explanation.explain` is a module too)."""
    value = getattr(counterpoise, name)
    return f"{getattr(value, '__module__', 'counterpoise')}.{name}"


def commands() -> str:
    """Every command: help, usage, options, as `--help` prints them."""
    parts = ["# Command line", "What does each command take?", *command("counterpoise", app)]
    for name in app.list_commands(click.Context(app)):
        parts += [f"## {name}", *command(f"counterpoise {name}", app.get_command(click.Context(app), name))]
    return "\n\n".join(parts) + "\n"


def command(name: str, each: click.Command | None) -> list[str]:
    """One command as Markdown."""
    assert each is not None
    context = click.Context(each, info_name=name)
    paragraphs = inspect.cleandoc(each.help or "").split("\n\n")
    parts = [example(text) if text.startswith("\b") else prose(text) for text in paragraphs]
    options = [record for option in each.get_params(context) if (record := option.get_help_record(context)) and record[1]]
    rows = [f"| `{names}`{{ .option }} | {prose(text).replace('|', '&#124;')} |" for names, text in options]
    return [
        fenced(each.get_usage(context).removeprefix("Usage: "), "text"),
        *parts,
        "\n".join(["| option | meaning |", "|---|---|", *rows]),
    ]


def example(text: str) -> str:
    """A paragraph that click does not wrap (it begins with a backspace), as code below its first line."""
    _, title, *lines = text.split("\n")
    return f"{prose(title)}\n\n{fenced(inspect.cleandoc(chr(10) + chr(10).join(lines)), 'text')}"


def prose(text: str) -> str:
    """Plain text as Markdown that shows the same characters."""
    return re.sub(r"([\\`*_\[])", r"\\\1", html.escape(text, quote=False))


def examples() -> str:
    """The files of `examples` that pages link to: code as it is, notebooks cell by cell."""
    parts = ["# Examples", "Programs and configuration; tests run or check each of them."]
    for name, title in EXAMPLES.items():
        path = ROOT / name
        parts += [f"## {title}"]
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.suffix == ".ipynb":
                parts += [f"### {each.stem.replace('_', ' ').capitalize()}", notebook(each)]
            elif each.name == "Dockerfile" or each.suffix in {".py", ".toml", ".yml", ".yaml", ".service", ".timer"}:
                parts += [f"`{each.relative_to(ROOT)}`", fenced(each.read_text(encoding="utf-8"), each.suffix[1:])]
    return "\n\n".join(parts) + "\n"


def notebook(path: Path) -> str:
    """Text and code of a notebook, its headings two levels lower."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    return "\n\n".join(fenced(text, "py") if code else re.sub(r"^#", "###", text, flags=re.MULTILINE) for text, code in texts)


def fenced(text: str, language: str) -> str:
    """A code block."""
    return f"```{language}\n{text.rstrip()}\n```"

"""A reader of a tutorial, who does what the page says, block by block.

A block of `sh` is typed into one shell; with the title `terminal N`, into a terminal of its own, where Ctrl-C ends what ran
before. A block with the name of a file as its title is saved. A block of `text` is the output of the block before it, and is
waited for: its lines are found one after the other, and `...` stands for anything. A block of `text` with a title is a sample of
what other runs may not print, and is not compared. A comment `<!-- Ctrl-C: terminal N, terminal M -->` ends what runs there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Block", "Reader", "blocks", "matches"]

WITHIN_S = 300.0
TO_END_S = 60.0


class Block(NamedTuple):
    """A fenced block: its language, its title (empty: none) and its text."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, and the comments that say where to press Ctrl-C."""
    found = re.finditer(r"^```(\w+)(?: title=\"([^\"]*)\")?\n(.*?)^```$|^<!-- Ctrl-C: (.*?) -->$", page, re.DOTALL | re.MULTILINE)
    return [Block(each[1] or "Ctrl-C", each[2] or "", each[3] or each[4]) for each in found]


def matches(expected: str, output: str) -> bool:
    """Whether the lines of a block of `text` are in an output, one below the other; columns may be wider or narrower."""
    found = "".join(
        r"(?:[^\n]*\n)*?"
        if line.strip() == "..."
        else re.sub(r"(?:\\ ){2,}", " {2,}", r"[^\n]*".join(map(re.escape, line.rstrip().split("...")))) + r"[^\S\n]*(?:\n|\Z)"
        for line in expected.rstrip().split("\n")
    )
    return re.search(f"^{found}", output, re.MULTILINE) is not None


class Reader:
    """One reader at a folder, with words of the page replaced (the port of a broker); ends all terminals when closed."""

    def __init__(self, folder: Path, replaced: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._folder, self._replaced = folder, replaced
        self._environment = os.environ | environment
        self._terminals: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        self._shell = _Shell(folder, self._environment)
        self._last: Path | None = None
        self._from = 0

    def read(self, page: str) -> None:
        """Do everything on the page."""
        for block in blocks(page):
            text = block.text
            for old, new in self._replaced.items():
                text = text.replace(old, new)
            self._do(Block(block.language, block.title, text))

    def _do(self, block: Block) -> None:
        if block.language == "Ctrl-C":
            self._interrupt(*block.text.split(", "))
        elif block.language == "text":
            if not block.title:
                self._compare(block.text)
        elif block.title.startswith("terminal "):
            self._interrupt(block.title)
            self._open(block)
        elif block.title:
            (self._folder / block.title).write_text(block.text, encoding="utf-8")
        else:
            assert block.language == "sh", f"a block of {block.language} without a title"
            self._last, self._from = self._shell.log, self._shell.log.stat().st_size
            self._shell.run(block.text)

    def _open(self, block: Block) -> None:
        log = self._folder / f"{block.title.replace(' ', '-')}.log"
        with log.open("ab") as output:
            self._last, self._from = log, output.tell()
            process = subprocess.Popen(
                ["bash", "-c", f"{self._shell.setup}\nexec {block.text}"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._terminals[block.title] = process, log

    def _interrupt(self, *terminals: str) -> None:
        """Ctrl-C in terminals, in all before one has ended: a signal to all processes of each."""
        ending = [self._terminals.pop(terminal)[0] for terminal in terminals if terminal in self._terminals]
        for process in ending:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        for process in ending:
            process.wait(TO_END_S)

    def _compare(self, expected: str) -> None:
        assert self._last is not None, "the page begins with an output"
        deadline = time.monotonic() + WITHIN_S
        while not matches(expected, output := self._output()):
            waiting = any(log == self._last and process.poll() is None for process, log in self._terminals.values())
            assert waiting, f"expected:\n{expected}\nprinted:\n{output}"
            assert time.monotonic() < deadline, f"waited for:\n{expected}\nprinted:\n{output}"
            time.sleep(0.1)

    def _output(self) -> str:
        assert self._last is not None
        return self._last.read_bytes()[self._from :].decode()

    def close(self) -> None:
        """End every terminal, the youngest first, and the shell."""
        for terminal in reversed(list(self._terminals)):
            self._interrupt(terminal)
        self._shell.close()


class _Shell:
    """One bash that runs texts one after the other; a command with an exit code above 1 fails the text."""

    setup = ". .venv/bin/activate"

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.log = folder / "shell.log"
        self._folder = folder
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                ["bash"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )
        self._run_count = 0
        self.run(self.setup)

    def run(self, text: str) -> None:
        self._run_count += 1
        script, ended = self._folder / "block.sh", self._folder / f"block-{self._run_count}.ended"
        trap = f"trap 'code=$?; [ $code -lt 2 ] || echo \"$BASH_COMMAND ended with $code\" >> {ended}.failed' ERR"
        script.write_text(f"{trap}\n{text}\ntrap - ERR\n", encoding="utf-8")
        assert self._process.stdin is not None
        self._process.stdin.write(f". {script}; touch {ended}\n".encode())
        self._process.stdin.flush()
        deadline = time.monotonic() + WITHIN_S
        while not ended.exists():
            assert self._process.poll() is None, "the shell has ended"
            assert time.monotonic() < deadline, f"still running:\n{text}\n{self.log.read_text()}"
            time.sleep(0.05)
        failed = Path(f"{ended}.failed")
        assert not failed.exists(), f"{failed.read_text()}\n{self.log.read_text()}"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(TO_END_S)

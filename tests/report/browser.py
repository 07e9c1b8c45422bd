"""A real Chromium for tests of the page, driven over WebDriver's HTTP: no package beyond Python's own."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Browser", "pages"]

FINDER = Path(__file__).resolve().parents[2] / "scripts" / "find_browser.sh"
# Root and small shared memory are usual where tests run.
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
LIMIT_S = 120


class Browser:
    """One Chromium window. `close` ends it."""

    def __init__(self) -> None:
        found = subprocess.run([FINDER], capture_output=True, text=True, check=False)
        if found.returncode:
            pytest.fail(found.stderr.strip(), pytrace=False)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._base = f"http://127.0.0.1:{free.getsockname()[1]}"
        port = self._base.rpartition(":")[2]
        command = [found.stdout.strip(), f"--port={port}"]
        self._driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if b"started successfully" in line:
                break
        options = {"goog:chromeOptions": {"args": ARGUMENTS}, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {"browserName": "chrome", **options}}})
        self._base += f"/session/{session['sessionId']}"
        self.size(1400, 1000)

    def open(self, page: Path, place: str = "") -> None:
        """Load the page anew, at a place; returns when it and what it does at once are done."""
        self._call("POST", "/url", {"url": "about:blank"})
        self._call("POST", "/url", {"url": page.as_uri() + place})

    def js(self, expression: str) -> Any:
        """The value of an expression."""
        return self.run(f"return ({expression})")

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; it has its arguments as `arguments`, and may await promises."""
        script = f"return (async function () {{ {script} }}).apply(null, arguments)"
        return self._call("POST", "/execute/sync", {"script": script, "args": arguments})

    def click(self, selector: str, at: int = 0) -> None:
        """Click an element, whether it is in view or not."""
        self.run("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, at)

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        look = f"const done = arguments[0]; const look = () => ({condition}) ? done(true) : setTimeout(look, 5); look()"
        self._call("POST", "/execute/async", {"script": look, "args": []})

    def cdp(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """The window's size in CSS pixels."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def scripts(self, *, on: bool) -> None:
        """Whether pages may run scripts; counts from the next one that is opened."""
        self.cdp("Emulation.setScriptExecutionDisabled", value=not on)

    def picture(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self.cdp("Page.captureScreenshot", format="png")["data"])

    def pdf(self) -> bytes:
        """The page as it prints, on A4."""
        return base64.b64decode(self.cdp("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])

    def complaints(self) -> list[str]:
        """What the console says since the last call: errors of scripts, and what the page's policy forbids."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def close(self) -> None:
        """End the window and the driver."""
        try:
            self._call("DELETE", "", None)
        finally:
            self._driver.terminate()
            self._driver.communicate(timeout=LIMIT_S)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from error


def pages(pdf: bytes) -> int:
    """The number of pages of a PDF that Chromium wrote."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))

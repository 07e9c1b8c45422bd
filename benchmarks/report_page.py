"""The page of an audit in Chromium: how large, how soon open, filtered, printed. `python -m benchmarks.report_page OUT`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.report.browser import Browser, pages

from counterpoise.report.render import write_report

TIMES = "(({ domInteractive, loadEventEnd }) => [domInteractive, loadEventEnd])(performance.getEntriesByType('navigation')[0])"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
FILTER = """
    const input = document.querySelector("#view [name=text]"), start = performance.now();
    input.value = arguments[0];
    input.dispatchEvent(new Event("input", { bubbles: true }));
    while (!document.querySelector("#matches").textContent) { await new Promise(requestAnimationFrame); }
    return performance.now() - start"""


def measure(out: Path, times: int, text: str) -> dict[str, Any]:
    """Figures of the page of the audit in `out`: CPU seconds of writing it, and medians in milliseconds over `times` visits."""
    start = time.process_time()
    page = Path(write_report(out))
    figures: dict[str, Any] = {"write_cpu_s": round(time.process_time() - start, 1), "megabytes": page.stat().st_size / 1e6}
    browser = Browser()
    try:
        visits = []
        for _ in range(times):
            browser.open(page)
            browser.until("performance.getEntriesByName('first-contentful-paint').length")
            visits.append([*browser.js(TIMES), browser.js(PAINT), browser.run(FILTER, text)])
        for name, values in zip(("parsed", "loaded", "first_paint", "first_filter"), zip(*visits, strict=True), strict=True):
            figures[f"{name}_ms"] = round(median(values))
        browser.open(page)
        figures["elements"] = browser.js("document.getElementsByTagName('*').length")
        start = time.monotonic()
        figures["printed_pages"] = pages(browser.pdf())
        figures["print_ms"] = round(1000 * (time.monotonic() - start))
    finally:
        browser.close()
    return figures


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the output folder of an audit")
    parser.add_argument("--times", type=int, default=5, help="visits")
    parser.add_argument("--text", default="group-0001", help="what is typed into the filter")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.out.resolve(), arguments.times, arguments.text), indent=1))


if __name__ == "__main__":
    main()

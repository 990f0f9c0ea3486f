"""A page as Chromium shows it, in windows of two widths: with RTM_BROWSER=1, as Chromium may hang at its end."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
WIDTHS = (1400, 500)  # pixels; Chromium's windows are not narrower
# Runs after the page's own script, and leaves what it sees in the title.
LOOK = """<script>
const column = [...document.querySelectorAll("table")].map(table => {
  const heading = table.tHead.rows[0].cells[0];
  const texts = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent);
  heading.click(); const down = texts(); heading.click(); return [down, texts()]; });
document.title = JSON.stringify({ sorted: column, width: innerWidth, needed: document.documentElement.scrollWidth,
  drawn: [...document.querySelectorAll("svg")].filter(svg => svg.getBoundingClientRect().height > 100).length });
</script></body>"""


def look_at(page: Path, folder: Path) -> None:
    """A click on a heading sorts its table, every figure is drawn, and nothing is wider than the window."""
    if os.environ.get("RTM_BROWSER") != "1":
        return
    text = page.read_text()
    copy = folder / "looked-at.html"
    copy.write_text(text.replace("</body>", LOOK))
    for width in WIDTHS:
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
        command = [CHROMIUM, *options, f"--user-data-dir={folder}/chromium", "--dump-dom", copy.as_uri()]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        seen = json.loads(html.unescape(re.search(r"<title>(.*?)</title>", shown, re.DOTALL)[1]))
        assert seen["needed"] <= seen["width"] <= width, f"wider than a window of {width}: {seen['needed']}"
        assert seen["drawn"] == text.count("<svg")
        for down, up in seen["sorted"]:
            assert sorted(down) == sorted(up)
            assert len(set(down)) < 2 or down[0] != up[0], f"not sorted by a click: {down[:3]}"

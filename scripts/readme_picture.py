"""README's first picture: the top of a report, photographed in Chromium. Needs playwright, and chromium on the PATH."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from knoll import compare, datasets
from knoll.report.comparison import comparison_page

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "compare-report.png"
WIDTH = 1180  # of the window; the picture ends below the pictures of all methods


def photographed(page: str) -> bytes:
    """Return the page from its top down to the end of the pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "report.html"
        file.write_text(page, encoding="utf-8")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        window = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        window.goto(file.as_uri())
        window.wait_for_function("[...document.querySelectorAll('canvas')].every((canvas) => canvas.dataset.drawn)")
        end = window.evaluate("document.querySelector('.answers').getBoundingClientRect().bottom + scrollY")
        taken = window.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": end + 8})
        browser.close()
    return taken


if __name__ == "__main__":
    data = datasets.load("x1500")
    found = compare(data.X, columns=list(data.feature_names))
    picture = Image.open(io.BytesIO(photographed(comparison_page(found, data.X, name=data.name))))
    picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(TARGET, optimize=True)
    print(f"{TARGET}: {TARGET.stat().st_size // 1000} kB")

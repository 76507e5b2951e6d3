"""Write the licences of what is linked into the extension (nanobind, and robin-map inside it) into a folder."""

import importlib.metadata
import re
import sys
from pathlib import Path

import nanobind

target = Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)

distribution = importlib.metadata.distribution("nanobind")
licences = [f for f in distribution.files or () if f.name.upper().startswith("LICEN")]
if not licences:
    sys.exit("nanobind carries no licence file: it cannot be linked into a wheel")
text = "\n".join(Path(str(distribution.locate_file(f))).read_text(encoding="utf-8") for f in licences)
(target / "LICENSE.nanobind.txt").write_text(text, encoding="utf-8")

headers = Path(nanobind.__file__).parent / "ext" / "robin_map" / "include" / "tsl" / "robin_map.h"
comment = re.match(r"\s*/\*(.*?)\*/", headers.read_text(encoding="utf-8"), re.DOTALL)
if comment is None or "MIT" not in comment.group(1):
    sys.exit(f"{headers} opens with no licence: it cannot be linked into a wheel")
lines = (line.strip().removeprefix("*").removeprefix(" ") for line in comment.group(1).splitlines())
(target / "LICENSE.robin-map.txt").write_text("\n".join(lines).strip() + "\n", encoding="utf-8")

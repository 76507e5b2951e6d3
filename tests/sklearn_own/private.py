"""Which tests of a module use private names of scikit-learn, found in the source.

A test is private if its body, its decorators, or a helper, fixture or constant of the module that it reaches
- uses a name imported from scikit-learn that begins with an underscore, or that lives in a private module and
  is not public anywhere above it (``make_blobs`` of ``sklearn.datasets._samples_generator`` is);
- reads or sets an attribute that begins with one underscore (``km._n_threads``, ``sklearn.cluster._kmeans``);
- names a private thing of scikit-learn in a string (``monkeypatch.setattr("sklearn.cluster._kmeans.x", …)``).

``sklearn.utils._testing``, the version shims of ``sklearn.utils.fixes`` and the thread control of
``sklearn.utils.parallel`` are tools of the tests, not parts of an estimator, and do not count.
"""

from __future__ import annotations

import ast
import importlib
import re

_TOOLS = ("sklearn.utils._testing", "sklearn.utils.fixes", "sklearn.utils.parallel")
_IN_STRING = re.compile(r"\bsklearn(\.\w+)*\._[a-z]\w*")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _public_above(module: str, name: str) -> bool:
    """Whether a public package above the private module gives out the same object under the same name."""
    thing = getattr(importlib.import_module(module), name, None)
    parts = module.split(".")
    first = next(i for i, part in enumerate(parts) if _is_private(part))
    for length in range(first, 0, -1):
        package = importlib.import_module(".".join(parts[:length]))
        if thing is not None and getattr(package, name, None) is thing:
            return True
    return False


def _private_imports(node: ast.AST) -> dict[str, str]:
    """Local name -> full name, for the private imports from scikit-learn below ``node``."""
    found = {}
    for statement in ast.walk(node):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("sklearn"):
            module = str(statement.module)
            if module in _TOOLS:
                continue
            hidden = any(map(_is_private, module.split(".")))
            for alias in statement.names:
                if _is_private(alias.name) or (hidden and not _public_above(module, alias.name)):
                    found[alias.asname or alias.name] = f"{module}.{alias.name}"
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name.startswith("sklearn.") and any(map(_is_private, alias.name.split("."))):
                    found[alias.asname or alias.name] = alias.name
    return found


def _direct(node: ast.AST, imported: dict[str, str]) -> set[str]:
    """Private uses in the node itself."""
    local = _private_imports(node)
    found = set(local.values())
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id in imported:
            found.add(imported[child.id])
        elif isinstance(child, ast.Attribute) and _is_private(child.attr):
            found.add(f".{child.attr}")
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            found.update(match.group() for match in _IN_STRING.finditer(child.value))
    return found


def _names(node: ast.AST) -> set[str]:
    """Names the node mentions; the arguments of a function too, since they may be fixtures of the module."""
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return names | {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}


def private_uses(source: str) -> dict[str, list[str]]:
    """Function name -> the private names it reaches, for every function and method of the module."""
    tree = ast.parse(source)
    imported = _private_imports(ast.Module([s for s in tree.body if not _has_body(s)], []))
    defined: dict[str, ast.AST] = {}
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            defined[statement.name] = statement
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                defined.update({n.id: statement for n in ast.walk(target) if isinstance(n, ast.Name)})

    def reach(node: ast.AST, seen: set[str]) -> set[str]:
        found = _direct(node, imported)
        for name in _names(node) & defined.keys() - seen:
            seen.add(name)
            found |= reach(defined[name], seen)
        return found

    functions: dict[str, ast.AST] = {n: p for n, p in defined.items() if isinstance(p, ast.FunctionDef)}
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            functions |= {f"{statement.name}::{f.name}": f for f in statement.body if isinstance(f, ast.FunctionDef)}
    return {name: sorted(reach(node, {name})) for name, node in functions.items()}


def _has_body(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.FunctionDef, ast.ClassDef))

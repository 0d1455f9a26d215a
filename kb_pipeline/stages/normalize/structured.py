"""JSON and its relatives: any JSON as lines of path and value, notebooks and rich-text notes as documents."""

import json
from collections.abc import Iterator
from typing import Any

from kb_pipeline.errors import Corrupt, TooLarge
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits
from kb_pipeline.stages.normalize.markdown import add_markdown
from kb_pipeline.stages.normalize.text import clean, decode

_DEPTH = 100
_BLOCK_CHARS = 600


def _load(text: str, name: str) -> Any:
    try:
        return json.loads(text.lstrip("\ufeff"), strict=False)
    except RecursionError as error:
        raise TooLarge(f"{name}: too large a nesting, the JSON is nested too deeply") from error
    except ValueError:
        pass
    try:  # control bytes may sit between tokens as well
        return json.loads(clean(text), strict=False)
    except ValueError as error:
        raise Corrupt(f"{name}: damaged JSON ({error})") from error


def read_json(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Any JSON: each value under the names that lead to it. Rich-text notes (ProseMirror) are read as prose."""
    value = _load(decode(content), name)
    blocks = Blocks()
    document = value.get("doc") if isinstance(value, dict) else None
    if isinstance(document, dict) and document.get("type") == "doc":
        _add_note(blocks, document, 0, name)
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for one in value:
            _add_value(blocks, one, name)
    else:
        _add_value(blocks, value, name)
    if isinstance(value, dict) and isinstance(value.get("title"), str):
        blocks.title = value["title"]
    return blocks


def read_jsonl(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """One JSON value a line; a line that is none is a warning."""
    blocks = Blocks()
    for number, line in enumerate(decode(content).split("\n"), 1):
        if line.strip():
            try:
                _add_value(blocks, _load(line, name), name)
            except Corrupt:
                blocks.warnings.append(f"{name}: line {number} is not JSON and was left out")
                blocks.is_partial = True
    if blocks.is_blank and blocks.warnings:
        raise Corrupt(f"{name}: damaged, none of its lines is JSON")
    return blocks


def _add_value(blocks: Blocks, value: Any, name: str) -> None:
    group: list[str] = []
    for line in _lines(value, "", 0, name):
        if group and sum(map(len, group)) + len(line) > _BLOCK_CHARS:
            blocks.add("\n".join(group))
            group = []
        group.append(line)
    blocks.add("\n".join(group))


def _lines(value: Any, path: str, depth: int, name: str) -> Iterator[str]:
    if depth > _DEPTH:
        raise TooLarge(f"{name}: too large a nesting, the JSON is nested more than {_DEPTH} deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(inner, f"{path}.{key}" if path else str(key), depth + 1, name)
    elif isinstance(value, list):
        if all(not isinstance(one, dict | list) for one in value):
            shown = ", ".join(_shown(one) for one in value if one is not None)
            yield from _line(path, shown)
        else:
            for one in value:
                yield from _lines(one, path, depth + 1, name)
    elif value is not None:
        yield from _line(path, _shown(value))


def _shown(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _line(path: str, shown: str) -> Iterator[str]:
    if shown.strip():
        yield f"{path}: {shown}" if path else shown


def read_notebook(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Cells in order: Markdown as prose, code as code, text outputs after it.

    Raises: Corrupt: not a notebook.
    """
    value = _load(decode(content), name)
    cells = value.get("cells") if isinstance(value, dict) else None
    if cells is None and isinstance(value, dict) and value.get("worksheets"):
        cells = value["worksheets"][0].get("cells")
    if not isinstance(cells, list):
        raise Corrupt(f"{name}: damaged, a notebook without cells")
    blocks = Blocks()
    language = str(value.get("metadata", {}).get("kernelspec", {}).get("language") or "python")
    for cell in (cell for cell in cells if isinstance(cell, dict)):
        source = _joined(cell.get("source") or cell.get("input"))
        if cell.get("cell_type") == "markdown":
            add_markdown(blocks, source)
        elif cell.get("cell_type") == "code" and source.strip():
            blocks.add(f"```{language}\n{source}\n```")
            _add_outputs(blocks, cell.get("outputs"))
        else:
            blocks.add(source)
    blocks.title = str(value.get("metadata", {}).get("title") or "")
    return blocks


def _joined(source: Any) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


def _add_outputs(blocks: Blocks, outputs: Any) -> None:
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            data = output.get("data")
            shown = data.get("text/plain") if isinstance(data, dict) else None
            blocks.add(_joined(output.get("text") or shown))


def _add_note(blocks: Blocks, node: dict[str, Any], depth: int, name: str) -> None:
    if depth > _DEPTH:
        raise TooLarge(f"{name}: too large a nesting, more than {_DEPTH} blocks inside each other")
    kind = node.get("type")
    children = [child for child in node.get("content") or [] if isinstance(child, dict)]
    if kind == "heading":
        blocks.heading(_note_text(node), int((node.get("attrs") or {}).get("level") or 1))
    elif kind == "table":
        blocks.table([[_note_text(cell) for cell in row.get("content") or []] for row in children])
    elif any(child.get("type") in ("text", "hard_break", "mention") for child in children) or not children:
        blocks.add(_note_text(node))
    else:
        for child in children:
            _add_note(blocks, child, depth + 1, name)


def _note_text(node: dict[str, Any]) -> str:
    if node.get("type") == "text":
        return str(node.get("text") or "")
    if node.get("type") == "hard_break":
        return "\n"
    attributes = node.get("attrs") or {}
    inner = [child for child in node.get("content") or [] if isinstance(child, dict)]
    own = str(attributes.get("alt") or attributes.get("caption") or attributes.get("fileName") or "")
    is_run = any(child.get("type") == "text" for child in inner)
    return own + ("" if is_run else " ").join(_note_text(child) for child in inner)

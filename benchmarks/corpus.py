"""A corpus made from documentation that comes with CPython and installed packages: on every machine."""

import json
from pathlib import Path

from kb_pipeline.cli.demo import write_documentation


def made_corpus(target: Path) -> Path:
    """Write one record per paragraph of that documentation; returns the file."""
    folder = target.parent / "documentation"
    write_documentation(folder)
    with target.open("w", encoding="utf-8") as file:
        for path in sorted(folder.rglob("*.*")):
            paragraphs = [p for p in path.read_text(encoding="utf-8").split("\n\n") if len(p.split()) > 15]
            for number, paragraph in enumerate(paragraphs):
                record = {"id": f"{path.stem}-{number}", "title": path.stem, "text": paragraph}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return target


def head(corpus: Path, target: Path, documents: int) -> Path:
    """The first N records of a corpus, all for 0."""
    lines = corpus.read_text(encoding="utf-8").splitlines(keepends=True)
    target.write_text("".join(lines[:documents] if documents else lines), encoding="utf-8")
    return target

"""E-books (EPUB): chapters in the order of the spine, the contents page left out."""

import posixpath
import urllib.parse
from typing import Any

from kb_pipeline.errors import AuthFailed, Corrupt, Unsupported
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import Archive, ParseLimits
from kb_pipeline.stages.normalize.markup import add_html
from kb_pipeline.stages.normalize.text import decode
from kb_pipeline.stages.normalize.xml import parse_xml

_PAGE_TYPES = {"application/xhtml+xml", "text/html", "application/xml", ""}


def read_epub(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """All chapters that can be read; one that cannot becomes a warning.

    Raises: AuthFailed: copy protection. Corrupt: no package file, or no chapter can be read.
    """
    archive = Archive(content, name, limits)
    if "META-INF/rights.xml" in archive.names or "META-INF/license.lcpl" in archive.names:
        raise AuthFailed(f"{name}: copy-protected (DRM) or behind a password; a free copy is needed")
    package_path = _package_path(archive, name)
    package = parse_xml(archive.read(package_path), name)
    blocks = Blocks()
    blocks.title = _text_of(package, "title")
    blocks.author = _text_of(package, "creator") or None
    chapters = _spine(package, posixpath.dirname(package_path))
    for path in chapters:
        _add_chapter(blocks, archive, path, name)
    if not chapters:
        raise Unsupported(f"{name}: holds no text, its reading order is empty")
    if blocks.is_blank and blocks.warnings:
        raise Corrupt(f"{name}: damaged, none of its {len(chapters)} chapters can be read")
    return blocks


def _package_path(archive: Archive, name: str) -> str:
    container = parse_xml(archive.read("META-INF/container.xml"), name)
    path = next((node.get("full-path") for node in container.iter() if _is(node, "rootfile")), None)
    if not path or path not in archive.names:
        raise Corrupt(f"{name}: damaged, its package file is missing")
    return str(path)


def _is(node: Any, tag: str) -> bool:
    return str(node.tag).rsplit("}", 1)[-1] == tag


def _text_of(package: Any, tag: str) -> str:
    return next((node.text or "" for node in package.iter() if _is(node, tag)), "")


def _spine(package: Any, folder: str) -> list[str]:
    """Member paths in reading order, each once, without the navigation page."""
    manifest = {node.get("id"): node for node in package.iter() if _is(node, "item")}
    contents = {
        urllib.parse.unquote((node.get("href") or "").split("#")[0])
        for node in package.iter()
        if _is(node, "reference") and node.get("type") == "toc"
    }
    paths: dict[str, None] = {}
    for reference in (node for node in package.iter() if _is(node, "itemref")):
        item = manifest.get(reference.get("idref"))
        if item is None or "nav" in (item.get("properties") or "").split():
            continue
        href = urllib.parse.unquote(item.get("href") or "")
        if href not in contents and (item.get("media-type") or "") in _PAGE_TYPES:
            paths[posixpath.normpath(posixpath.join(folder, href))] = None
    return list(paths)


def _add_chapter(blocks: Blocks, archive: Archive, path: str, name: str) -> None:
    try:
        page = archive.read(path)
    except KeyError:
        blocks.warnings.append(f"{name}: chapter {path} is missing in the file and was left out")
        blocks.is_partial = True
        return
    except Corrupt as error:
        blocks.warnings.append(f"{name}: chapter {path} was left out: {error}")
        blocks.is_partial = True
        return
    add_html(blocks, decode(page))

"""Presentations: titles, boxes, groups, tables, charts, diagrams and notes, slide by slide."""

from collections.abc import Iterator
from typing import Any

from kb_pipeline.errors import TooLarge
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import Archive, ParseLimits, stream_of

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"


def read_pptx(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Slides in order with slide marks; hidden slides are read like the others, and a warning names them."""
    import pptx

    Archive(content, name, limits).refuse_definitions()
    deck = pptx.Presentation(stream_of(content))
    slides = list(deck.slides)
    if len(slides) > limits.max_pages:
        raise TooLarge(f"{name}: too large, {len(slides):,} slides (at most {limits.max_pages:,})")
    blocks = Blocks()
    blocks.title, blocks.author = deck.core_properties.title or "", deck.core_properties.author or None
    for number, slide in enumerate(slides, 1):
        blocks.place("slide", str(number))
        if slide.element.get("show") == "0":
            blocks.warnings.append(f"{name}: slide {number} is hidden in the presentation; its text was read")
        _add_slide(blocks, slide)
    return blocks


def _add_slide(blocks: Blocks, slide: Any) -> None:
    title = slide.shapes.title
    if title is not None:
        blocks.heading(title.text_frame.text, 1)
    for shape in _shapes(slide.shapes):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.has_text_frame:
            blocks.add("\n".join(_paragraph(paragraph) for paragraph in shape.text_frame.paragraphs))
        elif getattr(shape, "has_table", False):
            blocks.table([["" if cell.is_spanned else cell.text for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_chart", False):
            _add_chart(blocks, shape.chart)
        elif shape.element.tag.endswith("}graphicFrame"):
            blocks.add("\n".join(_diagram(slide, shape)))
        elif (described := _description(shape)) and shape.element.tag.endswith("}pic"):
            blocks.add(f"Picture: {described}")
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text
        blocks.add(f"Notes: {notes}" if notes.strip() else "")


def _shapes(shapes: Any) -> Iterator[Any]:
    """All shapes, those of groups in place; alternative content by its first branch."""
    from pptx.shapes.shapetree import BaseShapeFactory

    for element in shapes._spTree.iterchildren() if hasattr(shapes, "_spTree") else shapes._grpSp.iterchildren():
        if element.tag == _MC + "AlternateContent":
            choice = element.find(_MC + "Choice")
            inner = list(choice) if choice is not None else []
        else:
            inner = [element]
        for one in inner:
            if not isinstance(one.tag, str) or one.tag.rsplit("}", 1)[-1] not in (
                "sp",
                "grpSp",
                "graphicFrame",
                "pic",
                "cxnSp",
            ):
                continue
            shape: Any = BaseShapeFactory(one, shapes)
            if one.tag.endswith("}grpSp"):
                yield from _shapes(shape.shapes)
            else:
                yield shape


def _paragraph(paragraph: Any) -> str:
    """Text of a paragraph with its line breaks and fields; deeper bullets are indented."""
    pieces: list[str] = []
    for node in paragraph._p.iter():
        if node.tag == _A + "t":
            pieces.append(node.text or "")
        elif node.tag == _A + "br":
            pieces.append("\n")
    text = "".join(pieces)
    return f"{'  ' * paragraph.level}{text}" if text.strip() else ""


def _add_chart(blocks: Blocks, chart: Any) -> None:
    """A chart of any type as its title and the table of its data, as the file caches them."""
    root = chart._chartSpace
    for title in root.iter(_C + "title"):
        blocks.add(" ".join(text.text or "" for text in title.iter(_A + "t")))
    series = list(root.iter(_C + "ser"))
    names = [" ".join(_points(one.find(_C + "tx")).values()) for one in series]
    values = [
        _points(one.find(_C + "val") if one.find(_C + "val") is not None else one.find(_C + "yVal")) for one in series
    ]
    labels: dict[int, str] = {}
    for one in series:
        labels |= _points(one.find(_C + "cat") if one.find(_C + "cat") is not None else one.find(_C + "xVal"))
    idxs = sorted(set(labels).union(*values))
    blocks.table([["", *names], *([labels.get(i, str(i + 1)), *(row.get(i, "") for row in values)] for i in idxs)])


def _points(reference: Any) -> dict[int, str]:
    """Cached values of a chart's reference by index; of several label levels the innermost."""
    if reference is None:
        return {}
    literal = {0: reference.findtext(_C + "v")} if reference.find(_C + "v") is not None else {}
    points = {
        int(point.get("idx") or 0): point.findtext(_C + "v") or ""
        for point in reversed(list(reference.iter(_C + "pt")))
    }
    return {idx: text for idx, text in (literal | points).items() if text}


def _diagram(slide: Any, shape: Any) -> list[str]:
    """Lines of a SmartArt diagram, which lie in a part of their own."""
    from pptx.oxml import parse_xml

    relation = shape.element.find(f".//{_DIAGRAM}")
    if relation is None or relation.get(_R + "dm") not in slide.part.rels:
        return []
    root = parse_xml(slide.part.related_part(relation.get(_R + "dm")).blob)
    lines = ("".join(text.text or "" for text in paragraph.iter(_A + "t")) for paragraph in root.iter(_A + "p"))
    return [line for line in lines if line.strip()]


def _description(shape: Any) -> str:
    """The alternative text a person wrote; names of image files say nothing."""
    described = next((node.get("descr") or "" for node in shape.element.iter() if str(node.tag).endswith("}cNvPr")), "")
    return (
        "" if described.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".emf", ".wmf", ".svg")) else str(described)
    )

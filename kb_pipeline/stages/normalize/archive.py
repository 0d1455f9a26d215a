"""Archives (ZIP): every member that can be read, in memory, as a section of one document."""

from collections.abc import Callable

from kb_pipeline.errors import KbError, Unsupported
from kb_pipeline.records import RawItem
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import Archive, ParseLimits


def read_zip(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Members in archive order under their path, which is only a label: nothing is written anywhere.

    Members that cannot be read become warnings. Raises: Unsupported: no member can be read. TooLarge, AuthFailed.
    """
    archive = Archive(content, name, limits)
    blocks = Blocks()
    for member in archive.names:
        _add_member(blocks, archive, member, name, limits, depth)
    if blocks.is_blank:
        reason = f": {blocks.warnings[0]}" if blocks.warnings else ""
        raise Unsupported(f"{name}: holds no text, none of its {len(archive.names)} members can be read{reason}")
    return blocks


def _add_member(blocks: Blocks, archive: Archive, member: str, name: str, limits: ParseLimits, depth: int) -> None:
    base = member.rsplit("/", 1)[-1]
    if base.startswith(".") or member.startswith("__MACOSX/"):
        return
    add_inner(blocks, lambda: archive.read(member), base, f"{name}/{member}", member, limits, depth)


def add_inner(
    blocks: Blocks,
    read: Callable[[], bytes],
    file_name: str,
    full_name: str,
    label: str,
    limits: ParseLimits,
    depth: int,
) -> None:
    """A document inside a document under a heading; one that cannot be read becomes a warning that names it."""
    from kb_pipeline.stages.normalize import normalize_file

    try:
        found = normalize_file(RawItem(content=read(), kind="file", file_name=file_name), full_name, limits, depth + 1)
    except KbError as error:
        blocks.warnings.append(f"{error}" if full_name in str(error) else f"{full_name}: {error}")
        blocks.is_partial = True
        return
    if found.text.strip():
        blocks.heading(label, 1)
        blocks.extend(found)

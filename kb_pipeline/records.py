"""The frozen records that flow from source to hit. No behaviour beyond what a record knows about itself."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from kb_pipeline.errors import Gone

Scope = Literal["user", "account", "public"]
RawKind = Literal["file", "html", "entry", "record"]
MarkKind = Literal["heading", "page", "slide", "sheet"]
DocumentStatus = Literal[
    "pending", "fetching", "parsing", "extracting", "chunking", "embedding", "ready", "failed", "archived"
]
Json = Mapping[str, Any]

VALIDATORS = frozenset({"etag", "last_modified"})
"""Keys of a source's state for conditional requests; withheld where every item is to be named again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A configured source as a connector sees it.

    Attributes:
        input: URL, or absolute path of a file or folder.
        options: connector options, JSON-able (`include`, `exclude`, …).
    """

    kb_id: str
    source_id: str
    connector: str
    input: str
    options: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing a listing named, not fetched yet.

    Attributes:
        external_id: the connector's stable key; survives re-listing.
        version: the connector's change token (etag, hash, size+mtime); equal means unchanged, no fetch.
        locator: what `fetch` needs to find it again, JSON-able.
        refusal: why it is not even fetched, "" if it is.
    """

    external_id: str
    version: str
    url: str | None = None
    title: str | None = None
    locator: Json = field(default_factory=dict)
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a source says it holds now.

    Attributes:
        items: may be a generator; an error while it is drained fails the whole listing.
        is_complete: True when what is not listed is no longer there (a folder); False for a window (a feed).
        is_unchanged: the source itself said so (304): `items` is empty and everything known stands.
        gone: the source's one address answered that nothing is there; a complete listing of nothing, to be confirmed.
        state: the cursor for the next listing, JSON-able; saved only after every item was recorded.
    """

    items: Iterable[Item]
    is_complete: bool
    is_unchanged: bool = False
    gone: Gone | None = None
    state: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawItem:
    """Fetched bytes with what the source said about them.

    Attributes:
        kind: how to read `content`: a file, a web page, or JSON of ours for a feed entry or a record.
        media_type: as declared by the source; never trusted over the content.
        url: where a reader finds the document; canonical where known.
        published_at: UTC-aware.
        metadata: JSON-able extras, kept with the document.
    """

    content: bytes
    kind: RawKind
    media_type: str | None = None
    url: str | None = None
    file_name: str | None = None
    title: str | None = None
    author: str | None = None
    published_at: datetime | None = None
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in a text: what starts at character `start`.

    Attributes:
        label: heading text, page or slide number, sheet name.
        level: heading depth from 1; 0 for the other kinds.
    """

    start: int
    kind: MarkKind
    label: str
    level: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRef:
    """An image, audio or video that belongs to a document, not fetched."""

    url: str
    kind: Literal["image", "audio", "video"]
    alt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedContent:
    """The text of a document as retrieval sees it, with its places.

    Attributes:
        text: NUL-free, without lone surrogates, NFC not forced; offsets everywhere count its code points.
        language: ISO 639-1, or "" where too short to tell.
        marks: ascending by `start`.
        warnings: what could not be read, one sentence each.
        is_partial: only a preview, an excerpt or some pages were readable.
    """

    title: str
    text: str
    language: str = ""
    url: str | None = None
    author: str | None = None
    published_at: datetime | None = None
    marks: Sequence[Mark] = ()
    media: Sequence[MediaRef] = ()
    warnings: Sequence[str] = ()
    is_partial: bool = False
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A span of a document's text: `text == document_text[start_char:end_char]`.

    Attributes:
        header: contextual header (title › section); embedded and indexed before `text`, never cited.
        page: page or slide number in which the chunk starts, from 1.
    """

    idx: int
    text: str
    start_char: int
    end_char: int
    header: str = ""
    page: int | None = None
    start_seconds: float | None = None

    @property
    def indexed_text(self) -> str:
        """What is embedded and searched: header, blank line, text."""
        return f"{self.header}\n\n{self.text}" if self.header else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """An embedding space; vectors of two spaces are never compared.

    Attributes:
        recipe: everything beside the weights that shapes a vector (window, pooling, prefixes), versioned.
        split: how the texts that get vectors are cut; empty where only the vectors are meant.
    """

    provider: str
    model: str
    revision: str
    dims: int
    recipe: str
    split: str = ""

    @property
    def space_id(self) -> str:
        """`<vector space>-<split>`: safe as a table name, equal only for equal spaces."""
        return f"{self.vector_space_id}-{self.split}" if self.split else self.vector_space_id

    @property
    def vector_space_id(self) -> str:
        """`<model slug>-<dims>-<8 hex>`: equal exactly where vectors may be compared."""
        identity = "\0".join((self.provider, self.model, self.revision, str(self.dims), self.recipe))
        slug = "".join(c if c.isalnum() else "-" for c in self.model.rsplit("/", 1)[-1].lower())[:40]
        return f"{slug}-{self.dims}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


_SPLIT = re.compile(r"-[ct]\d+-\d+$")


def vector_space_of(space_id: str) -> str:
    """`Space.vector_space_id` from a `Space.space_id`."""
    return _SPLIT.sub("", space_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A finished answer: 2xx or 304; every other status is raised as a typed failure.

    Attributes:
        url: final URL after redirects.
        moved_to: final URL when every redirect on the way was permanent (301, 308), else None.
        headers: lower-case names.
        content: body after decompression; empty for 304.
    """

    status: int
    url: str
    moved_to: str | None
    headers: Mapping[str, str]
    content: bytes

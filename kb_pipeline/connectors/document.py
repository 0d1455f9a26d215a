"""Files: one file, or a folder with everything below it. What is in a file is read by stages/normalize."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kb_pipeline.connectors.globs import Globs
from kb_pipeline.connectors.own import OwnFolders
from kb_pipeline.errors import Blocked, Gone, TooLarge, UnitFailure, Unsupported, UsageError
from kb_pipeline.records import Item, Json, Listing, RawItem, Source
from kb_pipeline.settings import Settings

_PATH_LIKE = re.compile(r"(/|\./|\.\./|~|[A-Za-z]:\\|\.$)")


class DocumentConnector:
    """Lists a folder without opening a file; fetches within the folder only.

    Options of a source: `include` and `exclude`, globs or lists of globs on the path in the folder (`**` crosses
    folders). Hidden files and folders are left out, and so are the home and the storage root where they lie in the
    folder. Links are followed where they end inside the folder.

    A file above `max_file_bytes` is refused.
    """

    name: ClassVar[str] = "document"
    has_global_ids: ClassVar[bool] = False
    understands: ClassVar[str] = "a file or a folder of files"

    def __init__(self, settings: Settings) -> None:
        self._max_bytes = settings.max_file_bytes
        self._own = OwnFolders(settings)

    def detect(self, source_input: str) -> bool:
        """True for a path that exists, or for something that can only be meant as one."""
        if "\0" in source_input or "://" in source_input or not source_input.strip():
            return False
        try:
            return bool(_PATH_LIKE.match(source_input)) or Path(source_input).expanduser().exists()
        except (OSError, RuntimeError):  # too long for a path; a home that is not known
            return False

    def canonical(self, source_input: str) -> str:
        """Absolute path with links resolved.

        Raises: UsageError: nothing is there, it is neither file nor folder, or it lies in the home.
        """
        return canonical_path(source_input, self._own)

    def list_items(self, source: Source, state: Json) -> Listing:
        """All files, in a stable order, as a generator: memory stays flat however many there are.

        Raises: UnitFailure: the folder is missing or cannot be read, also while the items are drawn; a malformed glob.
        """
        root = Path(source.input)
        if self._own.hold(root):
            raise Blocked(in_home(str(root)))
        try:
            is_folder = stat.S_ISDIR(root.stat().st_mode)
        except OSError as error:
            raise failure_of(error, str(root), "it is listed again at the next sync") from error
        if is_folder:
            tree = _Tree(root, _chosen(source), self._own)
            return Listing(items=_walk(tree, root, "", frozenset()), is_complete=True)
        return Listing(items=[_item(root.parent, root.name, root.stat())], is_complete=True)

    def fetch(self, item: Item) -> RawItem:
        """The file's bytes.

        Raises: Blocked: outside the folder, or not allowed to read. Gone, TooLarge, Transient.
        """
        root, relative = str(item.locator["root"]), str(item.locator["path"])
        path, name = Path(root, relative), _printable(relative)
        if not _is_inside(path, Path(root)):
            raise Blocked(f"{name}: leads out of the folder {root}, so it is not read")
        if self._own.hold(path):
            raise Blocked(in_home(name))
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would block an open
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Blocked(f"{name}: is not a regular file, so it is not read")
                content = file.read(self._max_bytes + 1)
        except OSError as error:
            raise failure_of(error, name, "it is tried again at the next sync") from error
        if len(content) > self._max_bytes:
            raise TooLarge(f"{name}: too large, more than {self._max_bytes:,} bytes; MAX_FILE_BYTES raises the cap")
        return RawItem(content=content, kind="file", file_name=_printable(path.name))


def canonical_path(source_input: str, own: OwnFolders) -> str:
    """Absolute, resolved path of an input. Raises: UsageError: nothing there, neither file nor folder, or our own."""
    try:
        path = Path(source_input).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{_printable(source_input)}: no such file or folder; check the path") from error
    if any("\udc80" <= c <= "\udcff" for c in str(path)):
        raise UsageError(f"{_printable(str(path))}: its name holds bytes that are not UTF-8; rename it")
    if not (path.is_dir() or path.is_file()):
        raise UsageError(f"{source_input}: neither a file nor a folder")
    if own.hold(path):
        raise UsageError(in_home(source_input))
    return str(path)


def in_home(name: str) -> str:
    """Why something is not read that lies where we keep what we made."""
    return f"{name}: lies in KB_HOME or KB_STORAGE, which hold what was made from the sources; give a folder outside"


def failure_of(error: OSError, name: str, hope: str) -> UnitFailure:
    """A file system's refusal as one of ours."""
    if isinstance(error, PermissionError):
        return Blocked(f"{name}: not allowed to read it; give this user the right to")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Gone(f"{name}: not there any more; {hope}")
    return Gone(f"{name}: cannot be read now ({error.strerror or error}); {hope}")


def _chosen(source: Source) -> Globs:
    """Raises: Unsupported: a glob that nothing matches: no folder is taken for empty because of it."""
    try:
        return Globs(source.options.get("include"), source.options.get("exclude"))
    except ValueError as error:
        raise Unsupported(f"{error}; add the source again with other globs") from None


@dataclass(frozen=True, slots=True)
class _Tree:
    """A folder as it is listed: where it begins, what is wanted of it, what is never taken."""

    root: Path
    chosen: Globs
    own: OwnFolders

    def leads_to(self, link: Path) -> bool:
        """Whether what a link names is to be taken for what stands there."""
        return _is_inside(link, self.root) and not self.own.hold(link)


def _walk(tree: _Tree, folder: Path, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[Item]:
    """Files below `folder`, names in order. A folder that cannot be read fails the listing: it is not empty."""
    try:
        here = folder.stat()
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise failure_of(error, _printable(str(folder)), "nothing is concluded from this listing") from error
    if (here.st_dev, here.st_ino) in above or tree.own.hold(folder):  # in above: a link to a folder that we are in
        return
    for entry in ordered:
        relative = f"{prefix}{entry.name}"
        if entry.name.startswith((".", "~$")) or (entry.is_symlink() and not tree.leads_to(Path(entry.path))):
            continue
        try:
            found = entry.stat()
        except OSError:  # gone since the folder was read, or a link to nothing: not there
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from _walk(tree, Path(entry.path), f"{relative}/", above | {(here.st_dev, here.st_ino)})
        elif stat.S_ISREG(found.st_mode) and tree.chosen.wants(relative):
            yield _item(tree.root, relative, found)


def _item(root: Path, relative: str, found: os.stat_result) -> Item:
    return Item(
        external_id=_printable(relative),
        version=f"{found.st_size}-{found.st_mtime_ns}-{found.st_ctime_ns}-{found.st_ino}",
        locator={"root": str(root), "path": relative},
    )


def _is_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
        return False


def _printable(name: str) -> str:
    """A file name as text, no two names the same: a byte that is not UTF-8 is a replacement character and its hex
    value, a replacement character of the name itself stands twice.
    """
    plain = name.replace("\ufffd", "\ufffd\ufffd")
    return "".join(f"\ufffd{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in plain)

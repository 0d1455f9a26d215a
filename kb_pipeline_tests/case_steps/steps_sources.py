"""Steps that set up bases, the outside and sources."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kb_pipeline.errors import KbError, NotVisible, UsageError
from kb_pipeline.sources import add_source
from kb_pipeline.storage.catalog_records import KnowledgeBase
from kb_pipeline.testing.loopback import Loopback
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord, as_list, step
from kb_pipeline_tests.case_steps.world import World

_TYPES = {
    ".html": "text/html", ".htm": "text/html", ".xml": "application/xml", ".rss": "application/rss+xml",
    ".txt": "text/plain", ".atom": "application/atom+xml", ".json": "application/json", ".pdf": "application/pdf",
    ".md": "text/markdown", ".csv": "text/csv",
}  # fmt: skip
RECORDS = "records.jsonl"


@step("create_kb", "kb", "scope", "owner", "account", "agency", "description", "settings", bare="kb")
def create_kb(world: World, args: Args) -> None:
    """A base; who owns it belongs to its account from now on."""
    owner, account = str(args.get("owner") or ""), str(args.get("account") or "")
    scope = args.get("scope") or ("user" if owner and not account else "account")
    if owner and account:
        world.accounts[owner] = account
    if args.get("settings"):
        world.restart(overrides=product_settings(args["settings"]))
    made = world.store.catalog.create_knowledge_base(
        str(args["kb"]), scope, owner=owner or (str(args["kb"]) + "-owner" if scope == "user" else ""),
        client_id=account, agency_id=str(args.get("agency") or ""), description=str(args.get("description") or ""),
    )  # fmt: skip
    world.bases[str(args["kb"])] = made.kb_id


def product_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a case by the product's names. Raises: UnknownWord: one that is not known."""
    names = {
        "chunk_size": "chunk_size", "max_chars": "chunk_size", "size": "chunk_size",
        "chunk_overlap": "chunk_overlap", "overlap": "chunk_overlap", "chunk_unit": "chunk_unit",
        "unit": "chunk_unit", "max_tokens": "chunk_size", "hybrid_search_enabled": "hybrid_search_enabled",
        "max_file_bytes": "max_file_bytes", "parse_timeout_s": "parse_timeout_s",
        "max_expanded_bytes": "max_expanded_bytes", "http_timeout_s": "http_timeout_s",
        "http_max_bytes": "http_max_bytes",
    }  # fmt: skip
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise UnknownWord(f"unknown setting: {', '.join(unknown)}")
    unit = {"chunk_unit": "tokens"} if "max_tokens" in given else {}
    return unit | {names[name]: value for name, value in given.items()}


@step(
    "serve", "url", "file", "status", "headers", "content_type", "ignore_query", "body", "endless", "etag",
    "last_modified", "delay_s", "drip_s",
)  # fmt: skip
def serve(world: World, args: Args) -> None:
    """What the stub answers at an address from now on."""
    file = world.file(args["file"]) if args.get("file") else None
    declared = args["content_type"] if "content_type" in args else _TYPES.get(file.suffix.lower()) if file else None
    headers = {str(name): str(value) for name, value in (args.get("headers") or {}).items()}
    by_header = next((headers.pop(name) for name in list(headers) if name.lower() == "content-type"), None)
    world.stub.serve(
        str(args["url"]), str(args.get("body") or ""), file=file, status=int(args.get("status") or 200),
        headers=headers, content_type=by_header or declared, ignore_query=bool(args.get("ignore_query")),
        endless=bool(args.get("endless")), delay_s=float(args.get("delay_s") or 0),
        drip_s=float(args.get("drip_s") or 0), etag=args.get("etag"), last_modified=args.get("last_modified"),
    )  # fmt: skip


@step("serve_local_canary", "port", "path", "body", "content_type")
def serve_local_canary(world: World, args: Args) -> None:
    """A server on a real port of this machine that nobody may reach; `port` is the word that stands for it."""
    if isinstance(args.get("port"), int):
        raise UnknownWord("serve_local_canary: port is a word to fill in, not a number")
    world.canary = Loopback()
    world.placeholders[str(args.get("port") or "PORT")] = str(world.canary.port)
    for host in ("127.0.0.1", "localhost", "[::1]", "127.1", "0x7f.1", "2130706433", "0.0.0.0"):
        url = f"http://{host}:{world.canary.port}{args.get('path') or '/'}"
        world.canary.serve(url, str(args.get("body") or ""), content_type=str(args.get("content_type") or "text/html"))


@step("add_feed", "kb", "url", "file", "content_type", "status", "every", "name", "as")
def add_feed(world: World, args: Args) -> None:
    """A feed as a source; with `file`, served there too."""
    if args.get("file"):
        serve(world, {name: args[name] for name in ("url", "file", "content_type", "status") if name in args})
    _add(world, args, "rss")


@step("add_url", "kb", "url", "file", "content_type", "status", "every", "name", "as")
def add_url(world: World, args: Args) -> None:
    """A page as a source; with `file`, served there too."""
    if args.get("file"):
        serve(world, {name: args[name] for name in ("url", "file", "content_type", "status") if name in args})
    _add(world, args, "url")


@step("add_url_each", "kb", "file", "urls", "as")
def add_url_each(world: World, args: Args) -> None:
    """Each line of a file as a page; a refused one is noted and harms no other."""
    lines = world.file(args["file"]).read_text(encoding="utf-8").splitlines() if args.get("file") else []
    for url in [line for line in lines if line.strip()] + [str(url) for url in as_list(args.get("urls"))]:
        world.given_urls.append(url)
        _add(world, {**args, "url": url}, "url")


def _add(world: World, args: Args, kind: str) -> None:
    url = str(args["url"])
    try:
        base = world.base_to_write(_base_name(world, args), world.caller(args.get("as")))
        add_source(
            world.store.catalog,
            world.registry,
            base.kb_id,
            url,
            source_type=kind,
            name=args.get("name"),
            every=args.get("every"),
        )
    except KbError as refusal:
        world.refusals[url] = str(refusal)


@step("add_folder", "kb", "folder", "path", "dir", "files", "include", "exclude", "name", "as", bare="folder")
def add_folder(world: World, args: Args) -> None:
    """A folder of the case, or files of it at paths of their own, as a folder source."""
    base = world.base_to_write(_base_name(world, args), world.caller(args.get("as")))
    given = str(args.get("folder") or args.get("path") or args.get("dir") or "")
    target = world.folder(base, str(args.get("name") or Path(given).name or "folder"))
    if given and (world.case.folder / given).is_dir():
        shutil.copytree(world.file(given), target, symlinks=True, dirs_exist_ok=True)
    elif not args.get("files"):
        raise UnknownWord(f"the case holds no folder {given!r}")
    for path, name in _files_at(args.get("files")):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(world.file(name), target / path)
    options = {key: as_list(args[key]) for key in ("include", "exclude") if args.get(key)}
    add_source(world.store.catalog, world.registry, base.kb_id, str(target), source_type="document", options=options)


def _files_at(given: object) -> list[tuple[str, str]]:
    """(path in the folder, file of the case): names, {path: file}, or a list of {path, file}."""
    if isinstance(given, Mapping):
        return [(str(path), str(name)) for path, name in given.items()]
    found = []
    for entry in as_list(given):
        one = dict(entry) if isinstance(entry, Mapping) else {"file": entry}
        unknown = sorted(set(one) - {"file", "path", "name"})
        if unknown or "file" not in one:
            raise UnknownWord(f"a file of a folder is {{path, file}}, not {entry!r}")
        found.append((str(one.get("path") or one.get("name") or one["file"]), str(one["file"])))
    return found


@step("upload", "kb", "file", "name", "as", "title", bare="file")
def upload(world: World, args: Args) -> None:
    """A file into the base's upload folder; refused, it is noted under its name."""
    if args.get("title"):
        raise UnknownWord("upload with a title: a file's title comes from the file")
    name = str(args.get("name") or args["file"])
    try:
        put_file(world, args, world.file(args["file"]), name)
    except KbError as refusal:
        world.refusals[name] = str(refusal)


def put_file(world: World, args: Args, content: Path, name: str) -> None:
    """Raises: KbError: the base is not the caller's, or the name leads out of the folder."""
    base = world.base_to_write(_base_name(world, args), world.caller(args.get("as")))
    shelf = world.folder(base)
    target = shelf / name
    try:
        if not target.resolve().is_relative_to(shelf.resolve()):
            raise UsageError(f"{name}: leads out of the folder, so it is not taken")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(content, target)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: cannot be the name of a file here ({error})") from error
    _register(world, base, shelf, "document")


def _register(world: World, base: KnowledgeBase, path: Path, kind: str) -> None:
    if str(path.resolve()) not in {source.input for source in world.store.catalog.sources(base.kb_id)}:
        add_source(world.store.catalog, world.registry, base.kb_id, str(path), source_type=kind)


@step("upload_batch", "kb", "files", "as", bare="files")
def upload_batch(world: World, args: Args) -> None:
    """Several files, as names or as {file, name}."""
    for entry in as_list(args["files"]):
        one = dict(entry) if isinstance(entry, Mapping) else {"file": entry}
        upload(world, {"kb": _base_name(world, args), "as": args.get("as"), **one})


@step("upload_jsonl", "kb", "file", "as", bare="file")
def upload_jsonl(world: World, args: Args) -> None:
    """One document a line: a records source of each base named, in which the path is the record's id."""
    caller = world.caller(args.get("as"))
    lines: dict[str, list[bytes]] = {}
    for line in world.file(args["file"]).read_bytes().splitlines():
        if line.strip():
            name, record = _record(line)
            lines.setdefault(str(name or _base_name(world, args)), []).append(record)
    for name, records in lines.items():
        try:
            base = world.base_to_write(name, caller)
        except KbError as refusal:
            world.refusals[str(args["file"])] = str(refusal)
            continue
        path = world.folder(base, RECORDS)
        path.parent.mkdir(parents=True, exist_ok=True)
        known = path.read_bytes().splitlines() if path.exists() else []
        again = {_id_of(record) for record in records} - {""}
        path.write_bytes(b"\n".join([*(line for line in known if _id_of(line) not in again), *records]) + b"\n")
        _register(world, base, path, "records")


def _record(line: bytes) -> tuple[object, bytes]:
    """(base named in the line, the line as a record); a line that is no object stays as it is."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None, line
    if not isinstance(record, dict) or "path" not in record:
        return None, line
    name = record.pop("kb", None)
    return name, json.dumps({"id": record.pop("path"), **record}, ensure_ascii=True).encode()


def _id_of(line: bytes) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return str(record.get("id", "")) if isinstance(record, dict) else ""


def without_record(path: Path, record_id: str) -> None:
    """Takes one record out of a records file."""
    lines = [line for line in path.read_bytes().splitlines() if line.strip() and _id_of(line) != record_id]
    path.write_bytes(b"".join(line + b"\n" for line in lines))


@step("replace", "kb", "path", "document", "file", "as")
def replace(world: World, args: Args) -> None:
    """Other content for a file that is there, at its path in an upload or source folder."""
    name = str(args.get("path") or args.get("document"))
    bases = (
        [world.base_to_write(args["kb"], world.caller(args.get("as")))] if args.get("kb") else all_bases(world, args)
    )
    found = [path for base in bases for path in files_named(world, base, name)]
    if not found:
        found = _new_place(world, bases, name)
    content = world.file(args["file"]).read_bytes()
    for path in found:
        path.write_bytes(content)


def _new_place(world: World, bases: Sequence[KnowledgeBase], name: str) -> list[Path]:
    """Where a file that is not there yet would lie. Raises: Mismatch: in none or in several folders."""
    tops = [path for base in bases for path in (world.root / "files" / base.kb_id).glob("*") if path.is_dir()]
    if len(tops) != 1:
        raise Mismatch(f"replace: there is no file {name!r} to replace")
    place = tops[0] / name.removeprefix(f"{tops[0].name}/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return [place]


def all_bases(world: World, args: Args) -> list[KnowledgeBase]:
    """The bases a caller may change."""
    caller = world.caller(args.get("as"))
    found = []
    for name in world.bases:
        try:
            found.append(world.base_to_write(name, caller))
        except NotVisible:
            continue
    return found


def files_named(world: World, base: KnowledgeBase, name: str) -> list[Path]:
    """Files of a base's folders at a path, or with a name."""
    top = world.root / "files" / base.kb_id
    files = [path for path in top.rglob("*") if path.is_file()] if top.is_dir() else []
    exact = [path for path in files if name in (str(path.relative_to(top)), "/".join(path.relative_to(top).parts[1:]))]
    return exact or [path for path in files if path.name == name]


def _base_name(world: World, args: Args) -> object:
    """The base a step names, or the only one there is."""
    if "kb" in args and args["kb"] is not None:
        return args["kb"]
    mine = [base.name for base in all_bases(world, args)] if args.get("as") else list(world.bases)
    if len(mine) != 1:
        raise UnknownWord(f"the step names no kb, and there are {len(mine)}")
    return mine[0]

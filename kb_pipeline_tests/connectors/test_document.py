"""The document connector: what a folder holds, and nothing outside of it."""

import os
import tracemalloc

import pytest

from kb_pipeline.connectors.document import DocumentConnector
from kb_pipeline.connectors.records import RecordsConnector
from kb_pipeline.errors import Blocked, Gone, TooLarge, UnitFailure, UsageError
from kb_pipeline.records import Item, Source
from kb_pipeline.sources import check_options
from kb_pipeline.stages.intake import clean_item


@pytest.fixture
def connector(settings):
    return DocumentConnector(settings)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "docs"
    for path in ("b.txt", "a.md", "sub/deep/c.pdf", ".hidden.txt", ".git/config", "sub/~$lock.docx"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


def listed(connector, path, **options):
    source = Source(kb_id="k", source_id="s", connector="document", input=str(path), options=options)
    listing = connector.list_items(source, {})
    assert listing.is_complete
    return list(listing.items)


def test_a_folder_lists_its_visible_files_by_their_path_in_it(connector, folder):
    assert [item.external_id for item in listed(connector, folder)] == ["a.md", "b.txt", "sub/deep/c.pdf"]


def test_a_single_file_is_listed_by_its_name(connector, folder):
    (item,) = listed(connector, folder / "b.txt")
    assert item.external_id == "b.txt"
    assert connector.fetch(item).content == b"b.txt"
    assert connector.fetch(item).file_name == "b.txt"


def test_the_version_changes_with_size_time_or_place_and_not_with_a_second_listing(connector, folder):
    before = {item.external_id: item.version for item in listed(connector, folder)}
    assert before == {item.external_id: item.version for item in listed(connector, folder)}
    (folder / "b.txt").rename(folder / "z.txt")
    (folder / "a.md").write_text("longer than before")
    os.utime(folder / "sub/deep/c.pdf", ns=(1, 2))
    after = {item.external_id: item.version for item in listed(connector, folder)}
    assert after["z.txt"] != before["b.txt"]  # a swap of two files must be seen
    assert after["a.md"] != before["a.md"]
    assert after["sub/deep/c.pdf"] != before["sub/deep/c.pdf"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"include": "*.md"}, ["a.md"]),
        ({"include": ["*.pdf", "b.*"]}, ["b.txt", "sub/deep/c.pdf"]),
        ({"exclude": ["sub/"]}, ["a.md", "b.txt"]),
        ({"include": "sub/*"}, []),
        ({"include": "sub/**"}, ["sub/deep/c.pdf"]),
        ({"include": "[ab].*", "exclude": "b.txt"}, ["a.md"]),
    ],
)
def test_globs_choose_files(connector, folder, options, names):
    assert [item.external_id for item in listed(connector, folder, **options)] == names


def test_a_link_is_followed_within_the_folder_only(connector, folder, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "within.txt").symlink_to(folder / "b.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "nothing").symlink_to(folder / "not-there")
    names = [item.external_id for item in listed(connector, folder)]
    assert names == ["a.md", "b.txt", "sub/deep/c.pdf", "within.txt"]


@pytest.mark.parametrize("path", ["../secret.txt", "sub/../../secret.txt", "link.txt"])
def test_fetch_refuses_what_leads_out_of_the_folder(connector, folder, tmp_path, path):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    item = Item(external_id=path, version="1", locator={"root": str(folder), "path": path})
    with pytest.raises(Blocked, match="leads out of the folder"):
        connector.fetch(item)


def test_a_pipe_is_neither_listed_nor_waited_for(connector, folder):
    os.mkfifo(folder / "pipe")
    assert "pipe" not in [item.external_id for item in listed(connector, folder)]
    with pytest.raises(Blocked, match="not a regular file"):
        connector.fetch(Item(external_id="pipe", version="1", locator={"root": str(folder), "path": "pipe"}))


def test_a_missing_folder_fails_the_listing_and_is_never_an_empty_one(connector, tmp_path):
    with pytest.raises(UnitFailure, match="not there"):
        listed(connector, tmp_path / "gone")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_fails_the_listing(connector, folder):
    (folder / "sub").chmod(0)
    with pytest.raises(Blocked, match="not allowed"):
        listed(connector, folder)
    (folder / "sub").chmod(0o700)


def test_a_folder_that_vanishes_while_it_is_listed_fails_the_listing(connector, folder):
    source = Source(kb_id="k", source_id="s", connector="document", input=str(folder))
    items = iter(connector.list_items(source, {}).items)
    next(items)
    (folder / "sub").rename(folder.parent / "moved")
    (folder / "sub").write_text("now a file")
    (folder / "sub").unlink()
    assert [item.external_id for item in items] == ["b.txt"]


def test_a_file_that_is_gone_or_too_large_says_so_by_name(settings, folder):
    connector = DocumentConnector(settings.model_copy(update={"max_file_bytes": 3}))
    items = {item.external_id: item for item in listed(connector, folder)}
    with pytest.raises(TooLarge, match=r"a\.md.*large"):
        connector.fetch(items["a.md"])
    (folder / "b.txt").unlink()
    with pytest.raises(Gone, match=r"b\.txt"):
        connector.fetch(items["b.txt"])


def test_names_that_are_not_utf8_stay_apart_and_can_be_fetched(connector, folder):
    names = (b"\xff.txt", b"\xfe.txt", b"\\xff.txt")  # the third has a backslash in its name
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(name)
    items = [item for item in listed(connector, folder) if "f" in item.external_id[:5] and "/" not in item.external_id]
    assert len({item.external_id for item in items}) == 3
    assert {connector.fetch(item).content for item in items} == set(names)
    assert all(item.external_id.encode() for item in items)


def test_listing_many_files_takes_little_memory(connector, tmp_path):
    root = tmp_path / "many"
    for folder in range(20):
        (root / f"{folder:02d}").mkdir(parents=True)
        for name in range(200):
            (root / f"{folder:02d}" / f"{name}.txt").touch()
    source = Source(kb_id="k", source_id="s", connector="document", input=str(root))
    tracemalloc.start()
    assert sum(1 for _ in connector.list_items(source, {}).items) == 4_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("text", ["./x", "/nowhere/at/all", "~/notes", "../y"])
def test_what_looks_like_a_path_is_detected(connector, text):
    assert connector.detect(text)


@pytest.mark.parametrize("text", ["https://example.org/a.pdf", "hello world", "", "a\0b", "x" * 100_000])
def test_what_is_no_path_is_not_detected(connector, text):
    assert not connector.detect(text)


def test_a_path_to_nothing_is_refused_with_its_name(connector):
    with pytest.raises(UsageError, match="/nowhere/at/all: no such file or folder"):
        connector.canonical("/nowhere/at/all")


NAMES = (
    b"a\xff.txt",
    "a\ufffdff.txt".encode(),
    b"a\xef\xbf.txt",
    "a\ufffd.txt".encode(),
    b"a\xff\xff.txt",
    b"a\xed\xa0\x80.txt",
)


def test_no_two_files_have_one_id_whatever_bytes_their_names_are(connector, folder):
    for name in NAMES:
        (folder / os.fsdecode(name)).write_bytes(name)
    items = listed(connector, folder, include="a?*.txt")
    assert len({clean_item(item).external_id for item in items}) == len(NAMES)
    assert {connector.fetch(item).content for item in items} == set(NAMES)


def test_a_failure_can_be_stored_whatever_bytes_the_file_s_name_is(settings, folder):
    path = folder / os.fsdecode(b"sub\xff") / os.fsdecode(b"a\xff.txt")
    path.parent.mkdir()
    path.write_text("too large")
    connector = DocumentConnector(settings.model_copy(update={"max_file_bytes": 3}))
    item = next(item for item in listed(connector, folder) if "ff.txt" in item.external_id)
    with pytest.raises(TooLarge) as large:
        connector.fetch(item)
    path.unlink()
    with pytest.raises(Gone) as gone:
        connector.fetch(item)
    for failure in (large, gone):
        assert str(failure.value).encode().startswith("sub\ufffdff/a\ufffdff.txt: ".encode())
    with pytest.raises(UsageError, match="not UTF-8"):
        connector.canonical(str(path.parent))
    with pytest.raises(UsageError, match="no such file"):
        connector.canonical(str(path))


@pytest.mark.parametrize(
    "glob",
    [
        "[",
        "a[b",
        "[z-a]*",
        "[]",
        "[!]",
        "(?",
        "(?i)a.*",
        "(?:a|b)",
        r".*\.md",
        "^a",
        "*.{md,txt}",
        "/etc/*",
        "../*",
        " ",
    ],
)
def test_a_glob_that_could_match_nothing_fails_the_listing_and_cannot_be_added(connector, folder, glob):
    for name in ("include", "exclude"):
        with pytest.raises(UnitFailure, match="The glob"):
            listed(connector, folder, **{name: glob})
        with pytest.raises(UsageError, match="the glob"):
            check_options({name: ["*.md", glob]})


@pytest.mark.parametrize("glob", ["report (?).md", "[[]x].md", "[!a-c]*.md", "a{b}.md", "[a-]*.md", "x].md", "./a.md"])
def test_odd_globs_that_match_something_are_taken(connector, folder, glob):
    check_options({"include": [glob]})
    for name in ("report (1).md", "[x].md", "a{b}.md", "x].md"):
        (folder / name).write_text(name)
    assert listed(connector, folder, include=glob)


def test_a_folder_that_holds_the_home_or_the_storage_is_listed_without_them(settings, folder):
    apart = settings.model_copy(update={"kb_home": folder / "sub/home", "kb_storage": str(folder / "storage")})
    for path in ("sub/home/catalog.sqlite", "sub/home/demo-files/x.txt", "storage/blobs/00/11", "storages.txt"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    (folder / "link").symlink_to(folder / "storage/blobs")
    (folder / "link.txt").symlink_to(folder / "sub/home/catalog.sqlite")
    connector = DocumentConnector(apart)
    names = [item.external_id for item in listed(connector, folder)]
    assert names == ["a.md", "b.txt", "storages.txt", "sub/deep/c.pdf"]
    for path in ("link.txt", "storage/blobs/00/11"):
        with pytest.raises(Blocked, match="KB_HOME"):
            connector.fetch(Item(external_id=path, version="1", locator={"root": str(folder), "path": path}))


def test_an_input_in_the_home_or_the_storage_is_refused_and_an_older_one_fails_its_listing(settings, tmp_path):
    apart = settings.model_copy(update={"kb_storage": str(tmp_path / "storage")})
    connector = DocumentConnector(apart)
    for root in (apart.kb_home, apart.storage_root):
        (root / "blobs").mkdir(parents=True)
        (root / "r.jsonl").write_text("{}")
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(root / "blobs")
        for path in (root, root / "blobs", root / "r.jsonl", tmp_path / "link"):
            with pytest.raises(UsageError, match="KB_HOME"):
                connector.canonical(str(path))
            with pytest.raises(Blocked, match="KB_HOME"):
                listed(connector, path)
        with pytest.raises(UsageError, match="KB_HOME"):
            RecordsConnector(apart).canonical(str(root / "r.jsonl"))
    apart.demo_files.mkdir()
    assert connector.canonical(str(apart.demo_files)) == str(apart.demo_files.resolve())
    assert listed(connector, apart.demo_files) == []

"""The kb command as a process: shapes of --json, exit codes, what goes to stdout and what to stderr."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = {"id", "title", "text"}


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    """Runs `kb …` in a home of its own with the cheap embedder; returns (exit code, stdout, stderr)."""
    folder = tmp_path_factory.mktemp("cli")
    env = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "KB_HOME": str(folder / "home"), "COLUMNS": "80",
        "EMBEDDING_MODEL": "fake:cli:64", "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    def run(*words, stdin="", **more):
        done = subprocess.run(
            [sys.executable, "-m", "kb_pipeline.cli", *words],
            cwd=folder, env={**env, **more}, input=stdin, capture_output=True, text=True, timeout=100, check=False,
            errors="surrogateescape",
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def sci(kb):
    """A knowledge base with three records and one that is broken."""
    rows = [
        {"id": "1", "title": "Ropes", "text": "A bowline does not slip under load."},
        {"id": "2", "title": "Anchors", "text": "An anchor holds by its shape."},
        {"id": "3", "title": "Tides", "text": "Spring tides follow the full moon."},
    ]
    lines = [json.dumps(row) for row in rows]
    (kb.folder / "sci.jsonl").write_text("\n".join([*lines, '{"id": "4"']) + "\n")
    assert kb("create", "sci")[0] == 0
    assert kb("add", "sci", "sci.jsonl")[0] == 0
    code, out, _ = kb("sync", "sci", "--json")
    return code, json.loads(out)


def test_sync_reports_runs_and_failed_documents_and_ends_well(sci):
    code, report = sci
    assert code == 0
    (run,) = report["runs"]
    wanted = "source status listed new changed unchanged removed failed embedded seconds cost_usd"
    assert set(wanted.split()) <= run.keys()
    assert (run["listed"], run["new"], run["failed"], run["embedded"]) == (4, 4, 1, 3)
    (failed,) = report["failed_documents"]
    assert failed["error_kind"] == "corrupt"
    assert "line 4" in failed["error"]


def test_maintain_reports_each_tenant_and_refuses_an_unknown_one(kb, sci):
    code, out, err = kb("maintain", "--json")
    assert (code, err) == (0, "")
    (tenant,) = json.loads(out)["tenants"]
    wanted = "tenant status row_count fragments_before fragments_after versions_before bytes_after unindexed_rows"
    assert set(wanted.split()) | {"orphans_removed", "blobs_removed", "warnings", "seconds"} <= tenant.keys()
    assert (tenant["tenant"], tenant["status"]) == ("account-default", "ok")
    assert tenant["row_count"] >= 3  # the records of `sci`, and what other tests of this home brought
    code, out, _ = kb("maintain", "--tenant", "account-default")
    assert code == 0
    assert "→" in out
    assert kb("maintain", "--tenant", "nobody")[0] == 2


def test_docs_has_the_shape_of_the_contract(kb, sci):
    _, out, _ = kb("docs", "sci", "--json")
    wanted = "document_id external_id title url source_id status error_kind error chunks cost_usd content_hash"
    documents = json.loads(out)["documents"]
    assert all(set(wanted.split()) <= row.keys() for row in documents)
    assert sorted(row["status"] for row in documents) == ["failed", "ready", "ready", "ready"]
    _, out, _ = kb("docs", "sci", "--status", "failed", "--json")
    assert len(json.loads(out)["documents"]) == 1


def test_search_has_the_shape_of_the_contract_and_cites_what_is_stored(kb, sci):
    code, out, _ = kb("search", "bowline under load", "--kb", "sci", "--json")
    assert code == 0
    result = json.loads(out)
    assert {"query", "event_id", "hits", "sources", "notes"} <= result.keys()
    hit = result["hits"][0]
    wanted = {
        "rank", "kb_id", "document_id", "document_title", "chunk_idx", "chunk_text", "similarity", "url", "source",
        "start_char", "end_char", "page", "start_seconds",
    }  # fmt: skip
    assert wanted <= hit.keys()
    assert (hit["rank"], hit["document_title"], hit["external_id"]) == (1, "Ropes", "1")
    assert {"number", "kbName", "source", "relevanceScore", "text"} <= result["sources"][0].keys()
    _, out, _ = kb("sql", f"SELECT text FROM documents WHERE document_id = '{hit['document_id']}'", "--json")
    text = json.loads(out)["rows"][0]["text"]
    assert text[hit["start_char"] : hit["end_char"]] == hit["chunk_text"]


def test_eval_has_the_shape_of_the_contract(kb, sci):
    (kb.folder / "q.jsonl").write_text('{"id": "a", "text": "bowline slip"}\n{"id": "b", "text": "full moon tides"}\n')
    (kb.folder / "r.tsv").write_text("query-id\tcorpus-id\tscore\na\t1\t1\nb\t3\t1\n")
    code, out, _ = kb("eval", "sci", "--queries", "q.jsonl", "--qrels", "r.tsv", "--json")
    assert code == 0
    scores = json.loads(out)
    assert {"kb_id", "queries", "ndcg@10", "recall@10", "mrr@10", "p50_ms", "p95_ms", "channels"} <= scores.keys()
    assert scores["queries"] == 2
    assert scores["ndcg@10"] == 1.0
    assert scores["channels"].keys() == {"dense", "sparse"}


def test_doctor_finds_nothing_wrong_and_says_so_as_json(kb, sci):
    code, out, _ = kb("doctor", "--json")
    findings = json.loads(out)
    assert (code, findings["ok"]) == (0, True)
    assert any("1 failed" in finding["found"] for finding in findings["findings"])


def test_doctor_finds_rows_that_somebody_removed(kb, sci, tmp_path):
    import shutil

    shutil.copytree(kb.folder / "home", tmp_path / "home")
    next((tmp_path / "home" / "parquet" / "chunks").rglob("part-*.parquet")).unlink()
    code, out, _ = kb("doctor", "--json", KB_HOME=str(tmp_path / "home"))
    assert code == 1
    broken = [finding["subject"] for finding in json.loads(out)["findings"] if finding["state"] == "broken"]
    assert any("chunks" in subject for subject in broken)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["search", ""], 2, "empty"),
        (["search", "x", "--kb", "nowhere"], 1, "nowhere"),
        (["search", "x", "--top-k", "0"], 2, "top-k"),
        (["add", "sci", "/no/such/place"], 2, "/no/such/place"),
        (["add", "sci", "ftp://example.org/x"], 2, "unknown source"),
        (["add", "sci", "sci.jsonl", "--every", "soon"], 2, "soon"),
        (["add", "sci", "sci.jsonl", "--every", "* * 31 2 *"], 2, "never due"),
        (["add", "sci", "sci.jsonl", "--every", "99999999999999w"], 2, "longer than a year"),
        (["add", "sci", "sci.jsonl", "--every", "9" * 5_000 + "w"], 2, "longer than a year"),
        (["add", "sci", ".", "--include", "[z-a]"], 2, "'[z-a]'"),
        (["add", "nowhere", "sci.jsonl"], 1, "nowhere"),
        (["create", ""], 2, "name"),
        (["create", "sci"], 2, "already"),
        (["create", "mine", "--scope", "user"], 2, "--owner"),
        (["sync", "sci/nothing"], 1, "nothing"),
        (["sql", "SELEC 1"], 2, "SQL"),
        (["export", "sci", "/dev/null"], 2, "/dev/null"),
        (["export", "sci", "/dev/null/x"], 2, "/dev/null"),
        (["sql", ""], 2, "no statement"),
        (["sql", " "], 2, "no statement"),
        (["sql", ";;"], 2, "no statement"),
        (["sql", "/* only a comment */", "--json"], 2, "no statement"),
        (["sql", "SELECT INTERVAL 100000000 YEAR"], 2, "SQL"),
        (["sql", "SELECT 1", "--limit", "-1"], 2, "limit"),
        (["frobnicate"], 2, "frobnicate"),
        (["docs", "sci", "--status", "nonsense"], 2, "'archived'"),
        (["eval", "sci", "--queries", "sci.jsonl", "--qrels", "sci.jsonl"], 2, "line"),
    ],
)
def test_what_cannot_be_done_is_one_clear_sentence_and_an_exit_code(kb, sci, words, code, says):
    found, out, err = kb(*words)
    assert (found, out) == (code, "")
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "given",
    [
        {"CHUNK_SIZE": "many"},
        {"CHUNK_OVERLAP": "1000"},
        {"CHUNK_OVERLAP": "800", "CHUNK_UNIT": "tokens"},
        {"CHUNK_OVERLAP": "100", "CHUNK_SIZE": "100"},
        {"HTTP_ALLOW": ",,x/99"},
        {"HTTP_TIMEOUT_S": "inf"},
    ],
)
def test_a_malformed_setting_is_one_clear_sentence(kb, sci, given):
    code, out, err = kb("search", "x", **given)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert next(iter(given)) in err
    assert "Value error" not in err


@pytest.mark.parametrize("variable", ["KB_HOME", "KB_STORAGE"])
@pytest.mark.parametrize("path", ["/dev/null", "/dev/null/home"])
def test_a_home_that_can_be_no_folder_is_wrong_usage(kb, variable, path):
    for words in (("init",), ("sources",), ("doctor",)):
        if (variable, words) == ("KB_STORAGE", ("sources",)):
            continue  # reads the catalog only
        code, out, err = kb(*words, **{variable: path})
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert path in err


def test_a_failed_listing_ends_with_exit_code_one_and_its_reason(kb, sci):
    gone = kb.folder / "gone"
    gone.mkdir()
    (gone / "a.txt").write_text("Soon to be gone.")
    kb("create", "gone")
    kb("add", "gone", "gone")
    (gone / "a.txt").unlink()
    gone.rmdir()
    code, out, _ = kb("sync", "gone", "--json")
    (run,) = json.loads(out)["runs"]
    assert (code, run["status"]) == (1, "failed")
    assert "gone" in run["error"]


def test_a_failure_names_its_source_once_and_lines_keep_their_words(kb, sci):
    kb("create", "lost")
    kb("add", "lost", "https://127.0.0.1:9/a-page.html", "--every", "1h")
    (source,) = json.loads(kb("sources", "lost", "--json")[1])["sources"]
    code, out, err = kb("sync", "lost")
    assert (code, source["every"]) == (1, "1h")
    assert (err.count(source["source_id"]), "lost--" in err) == (1, False)
    for words in (["sources"], ["sources", "lost"], ["sync", "lost"], ["doctor"]):
        _, out, _ = kb(*words)
        assert source["source_id"] in out
        assert all(len(line) <= 80 for line in out.splitlines())
    assert any(source["source_id"] in line and " 1h " in line for line in kb("sources")[1].splitlines())
    assert kb("sources", "sci")[1].splitlines()[3].rstrip().endswith(" UTC")


def test_no_secret_of_an_address_is_printed_or_becomes_part_of_an_id(kb, tmp_path):
    run = partial(kb, KB_HOME=str(tmp_path / "home"))
    secret = "S3KRET"
    address, page = f"http://127.0.0.1:9/full?access_token={secret}", f"https://u:{secret}@x.example/?api_key={secret}"
    (kb.folder / "links.jsonl").write_text(
        json.dumps({"id": "a", "title": page, "text": f"Mooring lines, see {address} there.", "url": page})
        + "\n{broken"
    )
    for words in (["create", "hush"], ["add", "hush", address], ["add", "hush", "links.jsonl"]):
        assert secret.lower() not in run(*words)[1].lower()
    printed = [*run("sync", "hush"), run("sync", f"hush/{address}")[2], run("docs", "hush")[1], run("doctor")[1]]
    printed += [run("sources", "hush", COLUMNS=columns)[1] for columns in ("80", "200")]
    printed += [run("search", "mooring lines", "--kb", "hush")[1], run("sql", "SELECT url, title FROM kb_documents")[1]]
    printed += run("remove", "hush", f"{address}&more=1")
    assert all(secret not in str(text) for text in printed), printed
    sources = json.loads(run("sources", "hush", "--json")[1])["sources"]
    assert {source["input"] for source in sources} >= {address}
    assert all(secret.lower() not in source["source_id"] for source in sources)
    (hit,) = json.loads(run("search", "mooring lines", "--kb", "hush", "--json")[1])["hits"]
    assert hit["url"] == hit["source"] == f"https://x.example/?api_key={secret}"


def test_no_value_however_long_fills_the_terminal(kb, tmp_path):
    run = partial(kb, KB_HOME=str(tmp_path / "home"))
    rows = [{"id": "i" * 100_000, "text": "x"}, {"id": "ok", "title": "t" * 9_000, "url": "http://x/" + "u" * 9_000}]
    (kb.folder / "long.jsonl").write_text("\n".join(json.dumps({"text": "Mooring. " * 9_000, **row}) for row in rows))
    run("create", "long")
    run("add", "long", "long.jsonl")
    shown = [run("sync", "long")[1], run("docs", "long")[1], run("sql", "SELECT text FROM documents")[1]]
    assert "longer than 1,000 characters" in " ".join(shown[1].split())
    assert max(len(text.splitlines()) for text in shown) < 60


def test_a_source_is_synced_by_its_partition_as_dagster_shows_it(kb, sci):
    (source,) = json.loads(kb("sources", "sci", "--json")[1])["sources"]
    for target in (f"sci--{source['source_id']}", f"sci/{source['source_id']}"):
        (run,) = json.loads(kb("sync", target, "--json")[1])["runs"]
        assert (run["source"], run["status"]) == (f"sci--{source['source_id']}", "ok")


def test_failed_documents_are_listed_with_kind_and_reason(kb, sci):
    _, out, _ = kb("docs", "sci")
    assert "line 4" in out
    assert "(corrupt)" in out
    assert "No documents are archived." in kb("docs", "sci", "--status", "archived")[1]


def test_wide_rows_are_shown_a_value_a_line(kb, sci):
    _, out, _ = kb("sql", "SELECT * FROM documents WHERE title = 'Tides'")
    assert "  text: Spring tides follow the full moon.\n" in out
    assert "  title: Tides\n" in out
    assert "No rows." in kb("sql", "SELECT * FROM documents WHERE title = 'nothing'")[1]
    assert max(map(len, kb("sql", "SELECT 1, 2, 3, 4, 5, 6, 7, 8, repeat('x', 900) AS long")[1].splitlines())) < 220


def test_export_writes_parquet_and_refuses_a_folder_in_use(kb, sci):
    code, out, _ = kb("export", "sci", "out")
    assert code == 0
    assert {path.name for path in (kb.folder / "out").iterdir()} == {
        "raw_items.parquet", "documents.parquet", "chunks.parquet", "kb.json"
    }  # fmt: skip
    assert "documents: 3 rows" in out
    assert kb("export", "sci", "out")[0] == 2


def test_an_input_that_is_added_again_keeps_what_is_not_given(kb):
    def stored(*words):
        assert kb("add", "again", ".", *words)[0] == 0
        (source,) = json.loads(kb("sources", "again", "--json")[1])["sources"]
        globs = kb("sql", f"SELECT options FROM kb_sources WHERE source_id = '{source['source_id']}'", "--json")[1]
        return source["every"], json.loads(json.loads(globs)["rows"][0]["options"])

    assert kb("create", "again")[0] == 0
    whole = {"include": ["*.txt"], "exclude": ["old/*"]}
    assert stored("--every", "1h", "--include", "*.txt", "--exclude", "old/*") == ("1h", whole)
    assert stored() == ("1h", whole)
    assert stored("--include", "*.md", "--name", "notes") == ("1h", {**whole, "include": ["*.md"]})
    assert stored("--every", "never", "--exclude", "") == (None, {"include": ["*.md"]})
    (kb.folder / "again.yaml").write_text("knowledge_bases:\n  - name: again\n    sources: [{input: .}]\n")
    assert "~ source" in kb("apply", "again.yaml")[1]
    assert stored() == (None, {})


def test_apply_is_idempotent_and_names_the_line_of_a_mistake(kb, sci):
    (kb.folder / "kb.yaml").write_text(
        "knowledge_bases:\n  - name: applied\n    sources:\n      - {input: sci.jsonl, every: 1h}\n"
    )
    assert "+ knowledge base applied" in kb("apply", "kb.yaml")[1]
    assert "Nothing to change" in kb("apply", "kb.yaml")[1]
    (kb.folder / "bad.yaml").write_text("knowledge_bases:\n  - name: x\n    sources:\n      - {inputs: y}\n")
    code, _, err = kb("apply", "bad.yaml")
    assert code == 2
    assert "bad.yaml line 4" in err
    (kb.folder / "bad.yaml").write_text(
        "knowledge_bases:\n  - name: applied\n    sources:\n      - {input: ., options: {include: ['(?']}}\n"
    )
    for words in (["apply", "bad.yaml"], ["apply", "bad.yaml", "--dry-run"]):
        code, _, err = kb(*words)
        assert (code, "the glob '(?'" in err) == (2, True)


def test_a_file_sets_what_a_base_is_made_by_and_names_what_it_does_not_mention(kb, sci):
    whole = (
        "knowledge_bases:\n  - name: whole\n    settings: {CHUNK_SIZE: 300}\n    sources:\n      - input: sci.jsonl\n"
    )
    (kb.folder / "own.yaml").write_text(whole)
    assert "~ settings of whole: CHUNK_SIZE=300" in kb("apply", "own.yaml")[1]
    assert json.loads(kb("set", "whole", "--json")[1])["own"] == ["chunk_size"]
    (kb.folder / "own.yaml").write_text(whole.replace("\n      - input: sci.jsonl", " []"))
    out = kb("apply", "own.yaml")[1]
    assert "? source" in out
    assert "kb remove whole" in out
    for wrong, said in (
        ("SIZE: 1", "no setting of a knowledge base"),
        ("CHUNK_SIZE: 1", "CHUNK_SIZE is wrong"),
        ("CHUNK_SIZE: 300, chunk_size: 400", "CHUNK_SIZE is given twice"),
    ):
        (kb.folder / "own.yaml").write_text(whole.replace("CHUNK_SIZE: 300", wrong))
        code, _, err = kb("apply", "own.yaml")
        assert (code, said in err, len(err.splitlines())) == (2, True, 1), err


def test_another_chunk_size_is_set_built_promoted_and_taken_back(kb, sci):
    (kb.folder / "wall.txt").write_text("The harbour wall is made of basalt. " * 60)
    assert kb("create", "wall")[0] == kb("add", "wall", "wall.txt")[0] == kb("sync", "wall")[0] == 0
    code, out, err = kb("promote", "wall")
    assert (code, out) == (2, "")
    assert "wall has no candidate space" in err
    shown = json.loads(kb("set", "wall", "CHUNK_SIZE=300", "chunk_overlap=0", "--json")[1])
    assert (shown["settings"]["chunk_size"], shown["own"]) == (300, ["chunk_overlap", "chunk_size"])
    plan = json.loads(kb("plan", "wall", "--json")[1])["sources"][0]
    assert plan["builds"].endswith("-c300-0")
    code, out, _ = kb("sync", "wall", "--json")
    assert json.loads(out)["runs"][0]["embedded"] == plan["embed"] > 0
    (candidate,) = json.loads(out)["candidates"]
    assert (candidate["done"], candidate["waiting"]) == (1, 0)
    rows = json.loads(kb("spaces", "wall", "--json")[1])["spaces"]
    assert [(row["role"], row["done"]) for row in rows] == [("serving", 1), ("candidate", 1)]
    assert rows[1]["rows"] > rows[0]["rows"]
    assert "Next: kb promote wall" in kb("spaces", "wall")[1]
    assert "is read from" in kb("promote", "wall")[1]
    count = json.loads(kb("docs", "wall", "--json")[1])["documents"][0]["chunks"]
    assert count == rows[1]["rows"]
    assert json.loads(kb("rollback", "wall", "--json")[1])["previous"] == rows[1]["space_id"]
    for words, said in (
        (["SIZE=1"], "NAME=VALUE"),
        (["CHUNK_SIZE=x"], "CHUNK_SIZE is wrong"),
        (["CHUNK_SIZE"], "NAME="),
    ):
        code, _, err = kb("set", "wall", *words)
        assert (code, said in err) == (2, True)
    assert json.loads(kb("set", "wall", "CHUNK_SIZE=", "CHUNK_OVERLAP=", "--json")[1])["own"] == []


def test_statements_are_read_from_stdin(kb, sci):
    code, out, err = kb("sql", stdin="SELECT DISTINCT title FROM documents WHERE title < 'B'\nnonsense\n")
    assert code == 0
    assert "Anchors" in out
    assert "SQL failed" in err
    code, out, err = kb("sql", stdin=";\nSELECT '\udcff'\nSELECT 'well' AS said\n")
    assert (code, err.count("SQL failed"), err.count("no statement")) == (0, 1, 1)
    assert "well" in out


def test_help_lists_every_command_without_loading_anything_heavy(kb):
    code = """
import sys
from click.testing import CliRunner
from kb_pipeline.cli.group import kb
print(CliRunner().invoke(kb, ["--help"]).output)
heavy = {"dagster", "torch", "lance", "pyarrow", "sqlalchemy", "rich"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    for command in (
        "init create add apply sync sources docs search eval doctor sql export demo spaces promote rollback set".split()
    ):
        assert command in done.stdout


@pytest.mark.parametrize("words", [("search", "tide"), ("docs", "k"), ("sources",), ("sql", "SELECT 1"),
                                   ("export", "k", "out"), ("spaces", "k"), ("plan", "k"),
                                   ("retry", "k"), ("forget", "k", "d"), ("share", "k", "--scope", "public"),
                                   ("eval", "k", "--queries", "none.jsonl", "--qrels", "none.tsv")])  # fmt: skip
def test_reading_where_no_home_is_makes_none_and_says_so(kb, words):
    (kb.folder / "none.jsonl").write_text('{"id": "q1", "text": "tide"}\n')
    (kb.folder / "none.tsv").write_text("query-id\tcorpus-id\tscore\nq1\t1\t1\n")
    code, out, err = kb(*words, KB_HOME=str(kb.folder / "typo"))
    assert (code, out) == (2, "")
    assert "typo is no home of knowledge bases" in " ".join(err.split())
    assert not (kb.folder / "typo").exists()


def test_a_base_without_sources_is_listed_too(kb):
    kb("create", "bare")
    assert "bare has no sources yet" in kb("sources")[1]
    assert "bare has no sources yet" in kb("sources", "bare")[1]

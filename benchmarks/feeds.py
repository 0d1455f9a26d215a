"""Reads every file below a folder as a feed and says what became of it.

    python -m benchmarks.feeds FOLDER

A file must give entries, be a feed without any, or be refused in one sentence. Ids must be distinct within a feed and
the same when the feed is read again. Exit code 1 if a file breaks that.
"""

import sys
import time
from collections import Counter
from pathlib import Path

from kb_pipeline.connectors.feed_identity import FeedMemory, identify
from kb_pipeline.connectors.rss import parse_answer
from kb_pipeline.errors import UnitFailure
from kb_pipeline.records import HttpResponse

ADDRESS = "https://feeds.example/feed"


def main(folder: Path) -> int:
    """Print a line per broken file and the summary; 0 if there is none."""
    outcomes: Counter[str] = Counter()
    slowest, broken = 0.0, 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        begun = time.perf_counter()
        outcome, faults = read(path.read_bytes())
        slowest = max(slowest, time.perf_counter() - begun)
        outcomes[outcome] += 1
        broken += bool(faults)
        for fault in faults:
            print(f"{path.relative_to(folder)}: {fault}")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    print(f"{outcomes.total()} files: {counts}; {broken} broken; slowest {slowest:.2f} s")
    return int(broken > 0)


def read(content: bytes) -> tuple[str, list[str]]:
    """(with entries | without entries | refused, faults) of one file."""
    answer = HttpResponse(status=200, url=ADDRESS, moved_to=None, headers={}, content=content)
    try:
        feed = parse_answer(answer)
    except UnitFailure:
        return "refused", []
    if feed is None:
        return "refused", []
    named, memory = identify(feed.entries, (feed.home,), FeedMemory.from_json({}))
    again, _ = identify(feed.entries, (feed.home,), memory)
    keys = [key for key, _ in named]
    faults = []
    if len(set(keys)) != len(keys):
        faults.append("two entries have one id")
    if keys != [key for key, _ in again]:
        faults.append("ids differ when the feed is read again")
    return ("with entries" if keys else "without entries"), faults


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.feeds FOLDER")
    sys.exit(main(Path(sys.argv[1])))

"""Which entry is which document: the ladder guid → link → title and date, learned from the feed's content and its past.

A rung counts only where the feed makes it one: a guid or link that several entries share names none of them, a guid
that changes at every listing is passed over, and an entry known under one rung keeps its document when another changes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kb_pipeline.connectors.feed_entries import Entry
from kb_pipeline.ids import MAX_EXTERNAL_ID_CHARS, sha256_hex
from kb_pipeline.records import Json
from kb_pipeline.urls import same_page

REMEMBERED = 1_000
"""Entries remembered beyond those in the present feed."""

_STANDS_FOR_TITLE = 200  # first characters of an entry without title


@dataclass(frozen=True, slots=True)
class _Trace:
    """What an entry could be known by; hashes, so that the memory stays small. "" means that it has none."""

    guid: str
    link: str
    title: str
    date: str

    @classmethod
    def of(cls, entry: Entry, not_ids: set[str]) -> "_Trace":
        guid = "" if not entry.guid or same_page(entry.guid) in not_ids else _short(entry.guid)
        title = entry.title.casefold() or entry.plain[:_STANDS_FOR_TITLE]
        return cls(guid, _short(same_page(entry.link)), _short(title), _short(entry.published or ""))


@dataclass(slots=True)
class FeedMemory:
    """What earlier listings taught: entries by external id, and which guids and links are shared.

    Attributes:
        known: {external_id: [guid, link, title, date]}, oldest first.
        ignores_guids: this feed changes its guids.
    """

    known: dict[str, _Trace]
    shared: set[str]
    ignores_guids: bool = False

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "FeedMemory":
        known = {str(key): _Trace(*(str(part) for part in parts)) for key, parts in state.get("known", {}).items()}
        return cls(known, set(state.get("shared", ())), bool(state.get("ignores_guids")))

    def as_json(self) -> Json:
        known = {key: [t.guid, t.link, t.title, t.date] for key, t in self.known.items()}
        return {"known": known, "shared": sorted(self.shared), "ignores_guids": self.ignores_guids}


def identify(
    entries: Sequence[Entry], not_ids: Iterable[str], memory: FeedMemory
) -> tuple[list[tuple[str, Entry]], FeedMemory]:
    """(external id, entry) for each distinct entry in the feed's order, and the memory for the next listing.

    Args:
        not_ids: addresses of the feed and its site, which some feeds give as every entry's guid.
    """
    outer = {same_page(url) for url in not_ids}
    pairs = _without_repeats([(_Trace.of(entry, outer), entry) for entry in entries])
    traces = [trace for trace, _ in pairs]
    shared = memory.shared | _shared(traces) | _reused(traces, memory)
    ignores_guids = memory.ignores_guids or _guids_change(traces, memory, shared)
    ladder = _Ladder(memory, shared, ignores_guids)
    keys = [
        ladder.unchanged(trace) for trace in traces
    ]  # strongest first, so that no weaker rung takes a document away
    keys = [key or ladder.by_guid(trace) for key, trace in zip(keys, traces, strict=True)]
    named = [(key or ladder.id_of(trace, entry), trace, entry) for key, (trace, entry) in zip(keys, pairs, strict=True)]
    known = dict(memory.known)
    for key, trace, _ in named:
        known.pop(key, None)
        known[key] = trace
    for key in list(known)[: max(0, len(known) - len(named) - REMEMBERED)]:
        del known[key]
    return [(key, entry) for key, _, entry in named], FeedMemory(known, shared, ignores_guids)


class _Ladder:
    """Gives each entry of one listing an id, none of them twice."""

    def __init__(self, memory: FeedMemory, shared: set[str], ignores_guids: bool) -> None:
        self._memory = memory
        self._shared = shared
        self._ignores_guids = ignores_guids
        self._given: set[str] = set()
        self._by: dict[tuple[str, ...], list[str]] = {}
        self._same: dict[_Trace, list[str]] = {}
        for key, trace in memory.known.items():
            self._same.setdefault(trace, []).append(key)
            for rung in self._rungs(trace):
                self._by.setdefault(rung, []).append(key)

    def _rungs(self, trace: _Trace) -> list[tuple[str, ...]]:
        """What can stand for the entry, strongest first."""
        guid = trace.guid if not self._ignores_guids and "g" + trace.guid not in self._shared else ""
        link = trace.link if "l" + trace.link not in self._shared else ""
        rungs: list[tuple[str, ...]] = []
        if guid:
            rungs.append(("guid", guid))
        if link:
            rungs.append(("link+title", link, trace.title))
        if link and not guid:
            rungs.append(("link", link))
        if not guid and not link:
            rungs.append(("text", trace.link, trace.title, trace.date))
        return rungs

    def unchanged(self, trace: _Trace) -> str:
        """The known document of which nothing changed that it is known by, "" if there is none."""
        found = next((key for key in self._same.get(trace, ()) if key not in self._given), "")
        if found:
            self._given.add(found)
        return found

    def by_guid(self, trace: _Trace) -> str:
        """The known document with this guid, "" if there is none."""
        return next((self._take(rung) for rung in self._rungs(trace) if rung[0] == "guid"), "")

    def id_of(self, trace: _Trace, entry: Entry) -> str:
        """The known document that the entry is, else a new id."""
        rungs = self._rungs(trace)
        for rung in rungs:
            found = self._take(rung, trace)
            if found:
                return found
        key = self._new_id(rungs, trace, entry)
        self._given.add(key)
        return key

    def _take(self, rung: tuple[str, ...], trace: _Trace | None = None) -> str:
        """The latest known document on this rung that is not given yet, "" if none."""
        for key in reversed(self._by.get(rung, ())):
            if key not in self._given and (trace is None or self._may_be(key, trace, rung[0])):
                self._given.add(key)
                return key
        return ""

    def _may_be(self, key: str, trace: _Trace, rung: str) -> bool:
        """False where a link is all that an entry without guid has in common with a known one that has a guid."""
        before = self._memory.known[key]
        if rung == "link":
            return (
                not before.guid
                or self._ignores_guids
                or "g" + before.guid in self._shared
                or before.title == trace.title
            )
        return True

    def _new_id(self, rungs: list[tuple[str, ...]], trace: _Trace, entry: Entry) -> str:
        kinds = [rung[0] for rung in rungs]
        fallback = (
            "entry:" + sha256_hex(trace.link, trace.title, trace.date, "" if entry.published else entry.plain)[:32]
        )
        names = [entry.guid] if "guid" in kinds else []
        names += [same_page(entry.link)] if "link" in kinds else []
        taken = self._given | self._memory.known.keys()
        for name in (*names, fallback):
            if name not in taken and len(name) <= MAX_EXTERNAL_ID_CHARS:
                return name
        return "entry:" + sha256_hex(fallback, trace.guid, entry.plain)[:32]


def _short(text: str) -> str:
    return sha256_hex(text)[:16] if text else ""


def _without_repeats(pairs: list[tuple[_Trace, Entry]]) -> list[tuple[_Trace, Entry]]:
    """The entries without those that the feed lists twice; of two versions of one, the newer."""
    kept: list[tuple[_Trace, Entry]] = []
    at: dict[tuple[str, str], list[int]] = {}
    for trace, entry in pairs:
        places = at.setdefault((trace.guid, trace.link), [])
        same = next((i for i in places if _is_repeat(kept[i], (trace, entry))), None)
        if same is None:
            places.append(len(kept))
            kept.append((trace, entry))
        elif (entry.updated or "") > (kept[same][1].updated or ""):
            kept[same] = (trace, entry)
    return kept


def _is_repeat(one: tuple[_Trace, Entry], other: tuple[_Trace, Entry]) -> bool:
    """True for two listings of one entry, both with the same guid and link."""
    if one[0].title != other[0].title:
        return False
    return bool(one[0].guid) or (one[0].date == other[0].date and one[1].plain == other[1].plain)


def _shared(traces: list[_Trace]) -> set[str]:
    """Guids and links that stand on several different entries of one listing."""
    guids = Counter(trace.guid for trace in traces if trace.guid)
    links = Counter(trace.link for trace in traces if trace.link)
    return {"g" + guid for guid, n in guids.items() if n > 1} | {"l" + link for link, n in links.items() if n > 1}


def _reused(traces: list[_Trace], memory: FeedMemory) -> set[str]:
    """Guids that came back on an entry with another link, title and date: they name a place, not a post."""
    before = {trace.guid: trace for trace in memory.known.values() if trace.guid}
    return {
        "g" + trace.guid
        for trace in traces
        if trace.guid in before
        and trace.link != before[trace.guid].link
        and trace.title != before[trace.guid].title
        and trace.date != before[trace.guid].date
    }


def _guids_change(traces: list[_Trace], memory: FeedMemory, shared: set[str]) -> bool:
    """True where entries known by link and title all come with new guids, at least two of them."""
    before = {
        (t.link, t.title): t.guid for t in memory.known.values() if t.guid and t.link and "l" + t.link not in shared
    }
    again = [(trace.guid, before[trace.link, trace.title]) for trace in traces if (trace.link, trace.title) in before]
    return len(again) >= 2 and all(new and new != old for new, old in again)

"""robots.txt: who may be asked for what. Fetched once per origin, kept for a day.

A 4xx or a refused redirect means that there are no rules; a 5xx or a time-out means not now (RFC 9309), kept briefly.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kb_pipeline.errors import AuthFailed, Blocked, Gone, Transient, UnitFailure
from kb_pipeline.urls import shown

KEPT_S = 24 * 3600.0
FAILURE_KEPT_S = 60.0
MAX_BYTES = 500_000
MAX_ORIGINS = 2_000
LONGEST_CRAWL_DELAY_S = 10.0


@dataclass(frozen=True, slots=True)
class _Answer:
    rules: Any  # protego.Protego, or None where everything is allowed
    failure: str | None
    until: float


class Robots:
    """The rules of every origin asked so far.

    Args:
        read: gives the text of a robots.txt address; raises `UnitFailure`s.
        clock: monotonic seconds.
    """

    def __init__(self, read: Callable[[str], bytes], user_agent: str, clock: Callable[[], float]) -> None:
        self._read = read
        self._agent = user_agent.partition("/")[0]
        self._clock = clock
        self._answers: OrderedDict[str, _Answer] = OrderedDict()

    def check(self, url: str, origin: str) -> float:
        """The origin's crawl delay in seconds, if the address may be read.

        Raises: Blocked: the rules forbid it. Transient: the rules cannot be had now.
        """
        answer = self._answers.get(origin)
        if answer is None or answer.until < self._clock():
            answer = self._answers[origin] = self._ask(origin)
            while len(self._answers) > MAX_ORIGINS:
                self._answers.popitem(last=False)
        if answer.failure:
            raise Transient(f"the address {shown(url)} was not read, because {answer.failure}")
        if answer.rules is None:
            return 0.0
        if not answer.rules.can_fetch(url, self._agent):
            raise Blocked(f"the address {shown(url)} may not be read by programs: {origin}/robots.txt forbids it")
        return min(float(answer.rules.crawl_delay(self._agent) or 0.0), LONGEST_CRAWL_DELAY_S)

    def _ask(self, origin: str) -> _Answer:
        from protego import Protego

        now = self._clock()
        try:
            text = self._read(f"{origin}/robots.txt").decode("utf-8-sig", "replace")
        except (Gone, Blocked, AuthFailed):
            return _Answer(None, None, now + KEPT_S)
        except Transient as error:
            return _Answer(None, f"its robots.txt could not be had: {error}", now + FAILURE_KEPT_S)
        except UnitFailure:  # an answer nobody can read sets no rules
            return _Answer(None, None, now + KEPT_S)
        return _Answer(Protego.parse(text), None, now + KEPT_S)

"""From bytes to the tree of what a reader sees: without scripts, walls and hidden parts, and of limited depth."""

import re
from dataclasses import dataclass
from typing import Any

from kb_pipeline.charset import charset_of, decode
from kb_pipeline.markup import with_few_attributes

MAX_DEPTH = 180
_NESTING = frozenset(
    "div span section article main center font b i u em strong small big blockquote ul ol dl table tbody tr td"
    " th li dd "
    "fieldset form a aside header footer nav figure details ins del sub sup code pre p".split()
)
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)((?:\"[^\"]*\"|'[^']*'|[^<>\"'])*)>")
_UNSEEN = (
    "script style template noscript svg canvas object embed applet iframe datalist select textarea button head map"
).split()
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CONSENT_NAME = re.compile(
    r"cookie[-_ ]?(?:banner|bar|consent|notice|law|layer|modal|popup|wall|policy|dialog|overlay|hint|message|info"
    r"|alert|warning)"
    r"|consent[-_ ]?(?:layer|banner|modal|manager|popup|dialog|overlay|wall|box|form)|gdpr|onetrust|didomi"
    r"|usercentrics|cybot|cookiebot"
    r"|quantcast|qc-cmp|\bcmp[-_]|sp_message|borlabs|truste|cookieconsent|eu-?cookie|privacy[-_ ]?(?:banner|layer"
    r"|modal|wall|popup)",
    re.IGNORECASE,
)
_CONSENT_WORDS = re.compile(
    r"cookie|consent|privacy|partners|personal data|measure|advertis|gdpr|small files|datenschutz|einwillig"
    r"|zustimm|personenbezogen"
    r"|vie privée|données personnelles|confidentialité|consentement|privacidad|datos personales|privacidade"
    r"|informativa|privacybeleid|同意|隐私|クッキー",
    re.IGNORECASE,
)
_ACCEPT_WORDS = re.compile(
    r"^\W*(?:(?:i |yes,? )?(?:accept|agree|allow|reject|decline|refuse|got it|ok(?:ay)?|manage|necessary"
    r"|customi[sz]e)\b.{0,40}"
    r"|(?:alle[ns]? )?(?:akzeptieren|zustimmen|annehmen|ablehnen|einverstanden)|tout (?:accepter|refuser)"
    r"|(?:j.)?accepte.{0,20}|aceptar.{0,20}"
    r"|rechazar.{0,20}|accetta.{0,20}|rifiuta.{0,20}|accepteren|akkoord|alle (?:akzeptieren|ablehnen"
    r"|cookies).{0,20}|同意.{0,10}|接受.{0,10})\W*$",
    re.IGNORECASE,
)
_WALL_NAME = re.compile(
    r"pay-?wall|reg-?wall|subscri(?:be|ption|ber)|premium|piano|membership|members?-only|gated|locked|upsell"
    r"|abo-?wall",
    re.I,
)
_WALL_WORDS = re.compile(
    r"subscribe to (?:continue|read|keep)|(?:paid|paying) (?:subscriber|reader|member)|for (?:paid |paying"
    r" )?(?:subscribers|members|readers) only"
    r"|already (?:a|an) (?:paid )?(?:subscriber|member)|(?:continue|keep) reading (?:with|by)|to (?:read|continue"
    r" reading) (?:this|the (?:full|rest))"
    r"|sign up to (?:continue|read)|unlock (?:this|the)|start your (?:free )?trial|become a (?:paid )?(?:member"
    r"|subscriber)|upgrade to paid"
    r"|jetzt abonnieren|nur für abonnenten|weiterlesen mit|réservé aux abonnés|solo para suscriptores|exclusivo"
    r" para suscriptores|会員限定|付费",
    re.IGNORECASE,
)
_WALL_CHARS = 1_500
_MOST_WALLS = 100


@dataclass(frozen=True, slots=True)
class Page:
    """A page's tree after cleaning.

    Attributes:
        root: lxml element `html`; the head is still there.
        full: the same before anything was taken out (for metadata).
        had_consent_wall, had_pay_wall: such a part was taken out.
    """

    root: Any
    full: Any
    had_consent_wall: bool
    had_pay_wall: bool


def page_text(content: bytes, media_type: str | None) -> str:
    """Decoded HTML: byte order mark, then UTF-8 where it is, then header, meta tag, detection."""
    meta = re.search(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", content[:8_192], re.IGNORECASE)
    declared = re.search(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", content[:200])
    names = [found[1].decode() for found in (meta, declared) if found]
    return decode(content, [charset_of(media_type), *names])


def read_page(text: str, keeps_all: bool = False) -> Page:
    """The tree of an HTML text.

    Args:
        keeps_all: only what no reader ever sees goes; walls and dialogs stay.
    """
    import copy

    full = _parsed(text)
    root = copy.deepcopy(full)
    _drop(root.xpath("//comment() | //processing-instruction()"))
    has_consent = False if keeps_all else _drop_consent(root)
    has_wall = False if keeps_all else _drop_pay_walls(root)
    body = root.find("body")
    if body is not None:
        _drop(element for name in _UNSEEN for element in body.iter(name))
        _drop(e for e in body.xpath(".//*[@hidden or @style or @aria-hidden]") if _is_hidden(e, keeps_all))
    return Page(root, full, has_consent, has_wall)


def words(element: Any) -> str:
    """All text of an element on one line."""
    return " ".join(element.xpath("string()").split())


def _short_words(element: Any, limit: int) -> str:
    """The element's text on one line, "" where it is longer: reads no further, as elements lie inside each other."""
    parts, size = [], 0
    for part in element.itertext():
        parts.append(part)
        size += len(part.strip())
        if size >= limit:
            return ""
    return " ".join("".join(parts).split())


def names(element: Any) -> str:
    """The element's class, id and role, for telling what it is for."""
    return " ".join(filter(None, (element.get("class"), element.get("id"), element.get("role"))))


def _parsed(text: str) -> Any:
    import lxml.html

    text = re.sub(r"\A\s*<\?xml[^>]*\?>", "", re.sub("[\0\ud800-\udfff]", "\ufffd", text))
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)
    source = with_few_attributes(_shallow(text)).encode("utf-8") or b"<html></html>"
    try:
        root = lxml.html.document_fromstring(source, parser=parser, ensure_head_body=True)
    except lxml.etree.ParserError:  # nothing but blanks and comments
        root = lxml.html.document_fromstring(b"<html><body></body></html>", ensure_head_body=True)
    return root


def _shallow(text: str) -> str:
    """The same page with tags nested deeper than `MAX_DEPTH` left out: parsers drop what lies in them."""
    depth, deepest = 0, 0
    for found in _TAG.finditer(text):
        if found[2].lower() in _NESTING and not found[3].endswith("/"):
            depth = max(0, depth + (-1 if found[1] else 1))
            deepest = max(deepest, depth)
    if deepest <= MAX_DEPTH:
        return text
    depth = 0

    def kept(found: re.Match[str]) -> str:
        nonlocal depth
        if found[2].lower() not in _NESTING or found[3].endswith("/"):
            return found[0]
        depth = max(0, depth + (0 if found[1] else 1))
        result = found[0] if depth <= MAX_DEPTH else "\n"
        depth = max(0, depth - (1 if found[1] else 0))
        return result

    return _TAG.sub(kept, text)


def _drop(elements: Any) -> None:
    """Takes elements out; text behind them stays."""
    for element in list(elements):
        parent = element.getparent()
        if parent is None:
            continue
        tail = (" " if element.tag in ("script", "style") else "") + (element.tail or "")
        before = element.getprevious()
        if before is not None:
            before.tail = (before.tail or "") + tail
        else:
            parent.text = (parent.text or "") + tail
        parent.remove(element)


def _is_hidden(element: Any, keeps_all: bool) -> bool:
    if element.get("hidden") is not None and element.get("hidden") != "until-found":
        return True
    if element.get("aria-hidden") == "true" and not keeps_all:
        return len(words(element)) < 200
    return bool(_HIDDEN_STYLE.search(element.get("style") or "")) and len(words(element)) < 2_000


def _holds_article(element: Any) -> bool:
    return element.tag in ("html", "body", "main", "article", "h1") or bool(
        element.xpath(".//main | .//article | .//h1")
    )


def _is_beside_article(element: Any, root: Any) -> bool:
    """True for a dialog with a heading of its own while the page has its article elsewhere."""
    if element.tag in ("html", "body") or element.xpath(".//main | .//article"):
        return False
    around = list(element.iterancestors("main", "article"))
    has_other = any(found not in around for found in root.iter("main", "article"))
    return has_other or len(root.xpath("//h1")) > len(element.xpath(".//h1"))


def _drop_consent(root: Any) -> bool:
    """Takes out dialogs that ask for consent, told by their name, their role, or their buttons and words."""
    found = []
    for element in root.iter("div", "section", "aside", "dialog", "form", "footer", "p"):
        name = names(element)
        is_named = bool(_CONSENT_NAME.search(name))
        is_dialog = (
            element.tag == "dialog"
            or element.get("role") in ("dialog", "alertdialog")
            or element.get("aria-modal") == "true"
        )
        if (is_named or is_dialog) and not (_holds_article(element) and not _is_beside_article(element, root)):
            text = words(element)
            if _CONSENT_WORDS.search(text) or is_dialog or len(text) < 200:
                found.append(element)
    for button in root.xpath(
        "//button | //input[@type='button' or @type='submit'] | //a[@role='button' or contains(@class, 'btn') or"
        " contains(@class, 'button')]"
    ):
        if len(found) < _MOST_WALLS and _ACCEPT_WORDS.match(words(button) or button.get("value") or ""):
            wall = _wall_around(button)
            if wall is not None:
                found.append(wall)
    has_words = any(len(words(element)) > 40 for element in found)
    _drop(found)
    return has_words


def _wall_around(button: Any) -> Any:
    """The nearest block around an accept button that talks about consent, if it holds no article."""
    for element in button.iterancestors():
        if _holds_article(element):
            return None
        text = words(element)
        if len(text) > 80:
            return element if len({found.lower() for found in _CONSENT_WORDS.findall(text)}) >= 1 else None
    return None


def _drop_pay_walls(root: Any) -> bool:
    """Takes out what asks to pay or sign up for the rest of the text."""
    found = []
    for element in root.iter("div", "section", "aside", "p", "form"):
        text = _short_words(element, _WALL_CHARS)
        asks = 0 < len(text) < _WALL_CHARS and _WALL_WORDS.search(text) and not _holds_article(element)
        is_short = len(text) < 300 and len(element.xpath("./p | ./div/p")) <= 2
        if asks and (is_short or _WALL_NAME.search(names(element))):
            found.append(element)
    _drop(found)
    return bool(found)

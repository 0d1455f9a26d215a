"""Web addresses as identifiers: normalising, comparing and showing them. Pure; nothing here resolves or connects."""

import re
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

TRACKING = re.compile(
    r"utm_\w+|gclid|gclsrc|dclid|fbclid|msclkid|yclid|twclid|mc_[ce]id|igshid?|_hs(enc|mi)|mkt_tok|ref_src|wt_mc|"
    r"vero_(id|conv)|oly_(anon|enc)_id|at_(medium|campaign)|cmpid|spm|__twitter_impression",
    re.IGNORECASE,
)
_SECRET_WORDS = frozenset(
    "token key secret password passwd pass pwd sig signature auth authorization session jwt credential credentials "
    "apikey authkey accesskey authtoken accesstoken sessionid jsessionid phpsessid bearer otp hmac".split()
)
_SECRET_NAMES = frozenset({"code", "sid", "ticket"})
_JWT = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PARAMETER = re.compile(r"([?&;#])([^=&;#?]+)=([^&;#?]*)")
_ADDRESS = re.compile(r"\b[a-zA-Z][\w+.-]{0,30}://[^\s<>\"]+")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SHOWN_LIMIT = 300


def split_web_address(url: str) -> SplitResult:
    """The parts of an http(s) address that is safe to request.

    Raises: ValueError: not one; the message says what is wrong and never repeats the address.
    """
    if any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise ValueError("holds spaces or control characters")
    if "\\" in url:
        raise ValueError("holds a backslash")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is not a valid address (host or port)") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("is not a web address starting with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("carries a user name or password, which is refused")
    if not parts.hostname or "%" in parts.hostname or port == 0:
        raise ValueError("has no usable host")
    return parts


def ascii_host(host: str) -> str:
    """A host name as it goes over the wire: lower case, IDNA, without a closing dot.

    Raises: ValueError: no such name can exist.
    """
    plain = host.rstrip(".").lower()
    if plain.isascii():
        if not plain or len(plain) > 253:
            raise ValueError("has no usable host")
        return plain
    try:
        import idna  # only for the few names that need it

        return idna.encode(plain, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        raise ValueError("has a host name that cannot exist") from None


def canonical_url(url: str) -> str:
    """One spelling for one page: lower-case scheme and host, no default port, fragment or tracking parameters.

    Raises: ValueError: as `split_web_address`.
    """
    parts = split_web_address(url.strip())
    host = ascii_host(parts.hostname or "")
    netloc = f"[{host}]" if ":" in host else host
    if parts.port and parts.port != _DEFAULT_PORTS[parts.scheme]:
        netloc += f":{parts.port}"
    path = quote(_without_dot_segments(parts.path), safe="/%:@!$&'()*+,;=~-._") or "/"
    return urlunsplit((parts.scheme, netloc, path, _kept_query(parts.query), ""))


def same_page(url: str | None) -> str:
    """`canonical_url`, or the text as it is where it is none; "" for nothing. For comparing, never for requesting."""
    if not url:
        return ""
    try:
        return canonical_url(url)
    except ValueError:
        return url.strip()


def shown(url: str) -> str:
    """The address as it may be printed, and not endless: what lets somebody in is masked.

    Masked are user name and password, and the values of parameters (of query, fragment and `;` parts) that are called
    a secret: a word of their name is one of token, key, secret, password, signature, auth, session and the like, or
    the name is code, sid or ticket, or begins with x-amz- or x-goog-. So are values that are a JSON web token or an
    address with such a parameter. A secret in the path cannot be told from a name. Stored rows and `--json` keep the
    whole address, as it has to work, but never its user name and password (`without_user`).
    """
    text = "".join(c if c.isprintable() else "\ufffd" for c in url)
    text = re.sub(r"^([a-zA-Z][\w+.-]*:)?[/\\]*[^/?#]*@", lambda m: f"{m[1] or ''}//", text)
    text = re.sub(r"//[^/@]*:(?!\d+(?:[/?#]|$))[^@]*@", "//", text)  # a password with a slash in it
    text = _PARAMETER.sub(lambda m: f"{m[1]}{m[2]}=***" if _is_secret(m[2], m[3]) else m[0], text)
    return text if len(text) <= _SHOWN_LIMIT else text[:_SHOWN_LIMIT] + "…"


def masked(text: str) -> str:
    """A text with every address in it as `shown`."""
    return _ADDRESS.sub(lambda found: shown(found[0]), text) if "://" in text else text


def without_user(url: str) -> str:
    """The address without user name and password; everything else as it is."""
    return re.sub(r"^([a-zA-Z][\w+.-]*:)//[^/?#]*@", r"\1//", url.strip())


def name_in(source_input: str) -> str:
    """What a source may be called after: last part of a path, or the host; nothing of an address's parameters."""
    if "://" not in source_input:
        return source_input.rstrip("/").rsplit("/", 1)[-1]
    parts = urlsplit(source_input)
    return parts.path.rstrip("/").rsplit("/", 1)[-1].partition(";")[0] or parts.hostname or ""


def _is_secret(name: str, value: str) -> bool:
    plain, value = unquote(name), unquote(value)
    words = {word.lower() for word in _WORD.findall(plain)}
    if plain.lower() in _SECRET_NAMES or plain.lower().startswith(("x-amz-", "x-goog-")):
        return True
    return bool(words & _SECRET_WORDS or _JWT.search(value)) or any(
        _is_secret(inner[2], "") for inner in _PARAMETER.finditer(value)
    )


def _kept_query(query: str) -> str:
    """The query without tracking parameters; byte for byte as it was where there are none."""
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = [(name, value) for name, value in pairs if not TRACKING.fullmatch(name)]
    return query if len(kept) == len(pairs) else urlencode(kept)


def _without_dot_segments(path: str) -> str:
    """The path after RFC 3986 §5.2.4."""
    if "/." not in path:
        return path
    out: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if len(out) > 1:
                out.pop()
        elif segment != ".":
            out.append(segment)
    if segments[-1] in (".", ".."):
        out.append("")
    return "/".join(out)

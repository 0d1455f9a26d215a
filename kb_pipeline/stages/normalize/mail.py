"""Mails (.eml, .msg): headers for people, the body once, messages and attachments inside."""

import email
import email.message
import email.policy
from datetime import UTC, datetime
from email.header import decode_header
from email.utils import parsedate_to_datetime
from typing import Any

from kb_pipeline.errors import TooLarge
from kb_pipeline.stages.normalize.archive import add_inner
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits, stream_of
from kb_pipeline.stages.normalize.markup import add_html
from kb_pipeline.stages.normalize.text import decode

_MOST_HEADER_CHARS = 10_000
"""Decoding takes quadratic time, and no person reads further."""
_SHOWN = ("From", "To", "Cc", "Date")


def read_mail(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """A MIME mail. Of alternatives the plain text is read, HTML where that is blank; attachments are read or named."""
    blocks = Blocks()
    message = email.message_from_bytes(content, policy=email.policy.compat32)
    blocks.title = header(message, "Subject")
    blocks.author = header(message, "From") or None
    blocks.published_at = _moment(message.get("Date"))
    _add_message(blocks, message, name, limits, depth)
    return blocks


def _moment(value: Any) -> datetime | None:
    try:
        moment = parsedate_to_datetime(str(value)) if value else None
    except (ValueError, IndexError, TypeError):  # what people's clocks and scripts write
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC) if moment else None


def header(message: email.message.Message, field: str) -> str:
    """A header as people read it: unfolded, encoded words decoded, whatever charset they claim."""
    value = message.get(field)
    if value is None:
        return ""
    raw = str(value)[:_MOST_HEADER_CHARS]
    unfolded = " ".join(raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace").split())
    pieces: list[str] = []
    try:
        decoded = decode_header(unfolded)
    except (ValueError, email.errors.HeaderParseError):
        return unfolded
    for part, charset in decoded:
        pieces.append(part if isinstance(part, str) else _in_charset(part, charset or "ascii"))
    return " ".join("".join(pieces).split())


def _in_charset(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset)
    except (LookupError, UnicodeDecodeError, ValueError):  # an unknown or a wrong charset: the bytes decide
        return decode(content)


def _add_message(blocks: Blocks, message: email.message.Message, name: str, limits: ParseLimits, depth: int) -> None:
    if depth > limits.max_nesting:
        raise TooLarge(f"{name}: too large a nesting, more than {limits.max_nesting} mails inside each other")
    blocks.heading(header(message, "Subject"), 1)
    lines = [f"{field}: {text}" for field in _SHOWN if (text := header(message, field))]
    blocks.add("\n".join(lines))
    _add_part(blocks, message, name, limits, depth)


def _add_part(blocks: Blocks, part: email.message.Message, name: str, limits: ParseLimits, depth: int) -> None:
    kind = part.get_content_type()
    if kind == "message/rfc822":
        for message in _children(part):
            _add_message(blocks, message, name, limits, depth + 1)
    elif kind == "multipart/alternative":
        _add_part(blocks, _best_alternative(part), name, limits, depth)
    elif part.is_multipart():
        for child in _children(part):
            _add_part(blocks, child, name, limits, depth)
    elif _file_name(part) or part.get_content_disposition() == "attachment" or part.get_content_maintype() != "text":
        _add_attachment(blocks, part, name, limits, depth)
    else:
        _add_body(blocks, part)


def _children(part: email.message.Message) -> list[email.message.Message]:
    inner = part.get_payload()
    return [child for child in inner if isinstance(child, email.message.Message)] if isinstance(inner, list) else []


def _best_alternative(part: email.message.Message) -> email.message.Message:
    """The plain text if it says anything, else the richest form; a mail without forms is itself blank."""
    children = _children(part)
    plain = [c for c in children if c.get_content_type() == "text/plain" and _text(c).strip()]
    return plain[0] if plain else children[-1] if children else email.message.Message()


def _bytes(part: email.message.Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _text(part: email.message.Message) -> str:
    return _in_charset(_bytes(part), str(part.get_param("charset") or "utf-8"))


def _add_body(blocks: Blocks, part: email.message.Message) -> None:
    text = _text(part)
    add_html(blocks, text) if part.get_content_type() == "text/html" else blocks.add(text)


def _file_name(part: email.message.Message) -> str:
    found = (part.get_filename() or "")[:_MOST_HEADER_CHARS]
    try:
        pieces = decode_header(found)
    except (ValueError, email.errors.HeaderParseError):
        return found
    return "".join(p if isinstance(p, str) else _in_charset(p, charset or "ascii") for p, charset in pieces)


def _add_attachment(blocks: Blocks, part: email.message.Message, name: str, limits: ParseLimits, depth: int) -> None:
    ending = {"text/html": ".html", "text/plain": ".txt", "text/csv": ".csv", "text/calendar": ".txt"}
    file_name = _file_name(part).replace("\\", "/").rsplit("/", 1)[-1]
    file_name = file_name or f"unnamed{ending.get(part.get_content_type(), '')}"
    _add_file(blocks, _bytes(part), file_name, name, limits, depth)


def _add_file(blocks: Blocks, content: bytes, file_name: str, name: str, limits: ParseLimits, depth: int) -> None:
    full_name, label = f"{name}: attachment {file_name}", f"Attachment: {file_name}"
    add_inner(blocks, lambda: content, file_name, full_name, label, limits, depth)


def read_msg(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """An Outlook mail with its attachments."""
    from oxmsg import Message

    message = Message.load(stream_of(content))
    blocks = Blocks()
    blocks.title, blocks.author = message.subject or "", message.sender or None
    sent = message.sent_date
    blocks.published_at = sent.replace(tzinfo=sent.tzinfo or UTC) if sent else None
    blocks.heading(message.subject or "", 1)
    recipients = ", ".join(f"{person.name} <{person.email_address}>".strip() for person in message.recipients)
    fields = (("From", message.sender), ("To", recipients), ("Date", sent.isoformat(" ", "minutes") if sent else ""))
    blocks.add("\n".join(f"{field}: {value}" for field, value in fields if value))
    if (message.body or "").strip():
        blocks.add(message.body or "")
    elif message.html_body:
        add_html(blocks, message.html_body)
    for attachment in message.attachments:
        file_name = (attachment.file_name or "unnamed").replace("\\", "/").rsplit("/", 1)[-1]
        _add_file(blocks, attachment.file_bytes or b"", file_name, name, limits, depth)
    return blocks

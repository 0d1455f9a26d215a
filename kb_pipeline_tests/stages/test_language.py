"""Language of a text."""

import pytest

from kb_pipeline.stages.language import detect_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The harbour board met on Tuesday and read the letters aloud.", "en"),
        ("Der Vorstand hat die Pacht der Fähre zum dreißigsten Juni beendet.", "de"),
        ("Le conseil du port a mis fin au bail du bac le trente juin.", "fr"),
        ("満潮は午前六時です。", "ja"),
        ("港口委员会终止了渡轮的租约。", "zh"),
        ("항구 위원회는 임대를 종료했습니다.", "ko"),
        ("คณะกรรมการท่าเรือยกเลิกสัญญาเช่า", "th"),
        ("أنهى مجلس الميناء عقد إيجار العبارة في نهاية يونيو.", "ar"),
        ("Совет порта прекратил аренду парома с тридцатого июня.", "ru"),
        ("short text", ""),
        ("12345 67890 12345 67890 12345", ""),
        ("", ""),
    ],
)
def test_languages_are_told_apart_and_too_little_is_not_guessed(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_short_questions_and_titles_are_told_apart() -> None:
    texts = {
        "covid vaccine immune response in elderly": "en",
        "Müller Vertrag Kündigung 2023": "de",
        "contrato de arrendamiento barco": "es",
        "rezervace letenky Praha levně": "cs",
    }
    assert {text: detect_language(text) for text in texts} == texts


@pytest.mark.parametrize("text", ["\ud800 and a lone surrogate between words", "one line\nand another\x00 with a NUL"])
def test_text_that_is_no_text_harms_nothing(text: str) -> None:
    assert detect_language(text) == "en"


def test_addresses_and_paths_speak_no_language() -> None:
    assert detect_language("https://example.org/wiki/Der_Vorstand_hat_die_Pacht_beendet /usr/share/locale/de") == ""

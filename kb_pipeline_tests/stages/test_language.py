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

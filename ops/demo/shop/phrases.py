"""Text in many scripts, and text that is easily taken for something else on its way."""

from __future__ import annotations

NAMES = (
    "Zoë Ångström",
    "王小明",
    "山田 花子",
    "김민준",
    "Мария Иванова",
    "Γιώργος Παπαδόπουλος",
    "محمد الأحمد",
    "נועה לוי",
    "अनन्या शर्मा",
    "Nguyễn Thị Ánh",
    "Seán O'Brien",
    'Bob "Tables" \\; DROP',
    "Astrid 👩‍🚀🇸🇪",
    "Ọlá Adébáyọ̀",
)

THINGS = (
    "Tea kettle, 1½ l",
    "茶壶（大）",
    "緑茶 ☕ 100g",
    "참기름",
    "Самовар «Тула»",
    "Ελαιόλαδο 5%",
    "زيت الزيتون",
    "שקדים קלויים",
    "हल्दी पाउडर",
    "Crème brûlée 🍮",
    "𝔉𝔯𝔞𝔨𝔱𝔲𝔯 poster",
    "Größe XXL – «weiß»",
    "e\u0301clair (composed of two)",
    "🧦🧦 pair",
)

NOTES = (
    None,
    "",
    " ",
    "NULL",
    "null",
    "\\N",
    "two\nlines\r\nand\ta tab",
    "trailing blanks  ",
    '"quoted", with comma',
    "it's; -- not a comment",
    "100 % \\ back\\slash \\t",
    "\u0001 control \u007f",
    "\ufeff byte order mark",
    "右から左 مرحبا بالعالم",
    "🙂" * 40,
    "long " * 400,
)

DOCUMENTS: tuple[object, ...] = (
    None,
    {},
    [],
    {"theme": "dark", "sizes": [38, 40.5], "vip": True},
    {"z": 1, "a": {"deep": [None, {"k": "värde"}]}, "m": -0.25},
    {"quote": 'a "word"', "slash": "\\", "newline": "\n", "emoji": "🎁"},
    ["mixed", 1, 2.5, False, None, {"ключ": "значение"}],
    "just text",
    12345678901234567890,
    True,
)

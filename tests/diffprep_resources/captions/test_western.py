import pytest

from diffprep_resources.captions.western import as_cp1252

WESTERN = [
    "caf\xe9",
    "Une fille \xe0 la plage, l'\xe9t\xe9, pr\xe8s de l'oc\xe9an",
    "\xc9l\xe8ve \xe0 l\u2019\xe9cole, \u0153uvre d\u2019art",
    "Ein kleines M\xe4dchen l\xe4uft \xfcber die Stra\xdfe",
    "Una ni\xf1a peque\xf1a en el jard\xedn espa\xf1ol",
    "Uma mulher \xe0 beira do mar em S\xe3o Paulo, com cora\xe7\xe3o",
    "En r\xf6d stuga p\xe5 en \xe4ng",
    "R\xf8dgr\xf8d med fl\xf8de p\xe5 bordet ved \xe5en",
    "A man\u2019s hat \u2013 red and \u201cold\u201d\u2026",
    "\xa9 John, \xbd litre of milk at 20\xb0C for 3\u20ac",
    "CAF\xc9 M\xdcNCHEN",
    "two\r\nlines, na\xefve fa\xe7ade\r\n",
]
OTHERS = [
    ("cp1250", "Mały chłopiec stoi na drodze obok żółtego domu"),
    ("cp1250", "dziewczyna w czerwonej sukience śpi"),
    ("iso8859-2", "zielona łąka"),
    ("cp1250", "malý dům u řeky"),
    ("cp1250", "Malá holčička"),
    ("cp1250", "egy kis ház a hegyen, őszi fák"),
    ("cp1250", "fată mică în grădină"),
    ("cp1250", "fată"),
    ("cp1251", "кошка"),
    ("cp1251", "a cat, кошка"),
    ("koi8-r", "красный дом у реки"),
    ("cp1253", "γάτα"),
    ("cp1254", "kırmızı bir ev"),
    ("cp1257", "maža mergaitė"),
    ("cp932", "ネコ"),
    ("gbk", "一只黑色的狗"),
    ("cp949", "a cat 고양이"),
    ("cp850", "café"),
    ("cp850", "el niño está comiendo"),
    ("cp850", "Ein kleines Mädchen läuft über die Straße"),
    ("mac_roman", "café"),
    ("mac_roman", "München"),
]


@pytest.mark.parametrize("text", WESTERN)
def test_west_european_text_is_certain(text):
    assert as_cp1252(text.encode("cp1252")) == text


@pytest.mark.parametrize(("encoding", "text"), OTHERS)
def test_text_of_another_encoding_is_not_taken_for_it(encoding, text):
    assert as_cp1252(text.encode(encoding)) is None


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\x93\x94", b"a\x01\xe9", b"\xd7\xd7", b"\x81"])
def test_marks_and_controls_alone_are_no_text(data):
    assert as_cp1252(data) is None

"""The README's moving picture: how a terminal's frames become an SVG file."""

import re
from xml.etree import ElementTree

from tests.pictures.__main__ import PICTURE, frames_of
from tests.pictures.film import COLOURS, Frame, film

SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 500_000


def test_a_line_of_several_frames_is_stored_once_and_each_frame_shows_its_own() -> None:
    frames = [Frame(("same", "1 < 2 & 3"), 1.0), Frame(("same", "", "two"), 3.0)]
    root = ElementTree.fromstring(film(frames, 20, 3, 'a "title"'))
    stored = {
        each.attrib["id"]: "".join(each.itertext())
        for each in root.find(f"{SVG}defs") or ()
        if each.tag == f"{SVG}g"
    }
    assert list(stored.values()) == ["same", "1 < 2 & 3", "two"]
    shown = [
        [stored[use.attrib["href"].removeprefix("#")] for use in group.iter(f"{SVG}use")]
        for group in root.iter(f"{SVG}g")
        if group.attrib.get("transform", "").endswith(" 0)")
    ]
    assert shown == [["same", "1 < 2 & 3"], ["same", "two"]]
    style = root.findtext(f"{SVG}style") or ""
    assert re.findall(r"([\d.]+)% {", style) == ["0.000", "25.000"]
    assert "prefers-reduced-motion" in style


def test_a_colour_lasts_into_the_next_line() -> None:
    picture = film([Frame(("\x1b[32mgreen", "still\x1b[0m not"), 1.0)], 20, 2, "t")
    assert picture.count(f"fill:{COLOURS[2]}") == 2
    assert re.search(r">not</text>", picture)


def test_the_film_ends_with_the_verdict_and_waits_are_shortened() -> None:
    verdict = ("A is equal to the source: 1", "B is equal to the source: 1")
    frames = frames_of(
        [(0.0, ("a",)), (60.0, ("⠋ b",)), (61.0, ("⠙ b",)), (90.0, verdict), (99.0, ("later",))]
    )
    assert [frame.lines for frame in frames] == [("a",), ("⠋ b",), verdict]
    assert [frame.seconds for frame in frames[:2]] == [0.5, 0.5]


def test_the_readmes_picture_is_small_enough_and_loads_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    root = ElementTree.fromstring(text)
    assert root.findtext(f"{SVG}title")
    references = {value for each in root.iter() for name, value in each.items() if "href" in name}
    assert all(value.startswith("#") for value in references)
    assert "url(http" not in text

"""Words for numbers, times and names: bounded, honest, and safe to show."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.pipeline.findings.advice import migration_notes
from counterpoise.report.colours import HUES, PATTERNS, identities, looks
from counterpoise.report.words import DAY, clock, count, duration, instant, long, number, paragraphs, percent, slug, visible


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (count(23844), "23,844"),
        (count(None), "\u2013"),
        (count(2.5), "2.5"),
        (number(9999), "9,999"),
        (number(24174), "24.2 k"),
        (number(999_999), "1 M"),
        (number(3_400_000), "3.4 M"),
        (percent(0.9999), "99.9%"),
        (percent(0.00001), "0.1%"),
        (percent(1.0), "100%"),
        (percent(0.5), "50%"),
        (duration(999), "999 ms"),
        (duration(3025), "3 s"),
        (duration(600_000), "10 min"),
        (duration(591_000), "9 min 51 s"),
        (duration(90_000_000), "25 h"),
        (duration(200_000_000), "2 d 07 h"),
        (instant(1_795_233_825_154_000), "2026-11-21 04:03:45"),
    ],
)
def test_numbers_and_times_read_as_a_person_writes_them(made, expected):
    assert made == expected


def test_control_and_direction_characters_are_spelled_out():
    assert visible("a\u202eb\x1b[31m\n") == "a\\u202eb\\u001b[31m\\u000a"


@given(st.text(max_size=30))
def test_a_visible_name_can_neither_hide_nor_move_anything(text):
    assert all(char.isprintable() or char.isspace() for char in visible(text))
    assert not set(visible(text)) & set("\n\r\t\x1b\u202a\u202b\u202d\u202e\u2066\u2067\u2028\u2029")


@given(st.text(max_size=60), st.text(max_size=60))
def test_link_ids_are_plain_and_differ_when_the_names_do(one, other):
    assert re.fullmatch(r"g-[A-Za-z0-9._-]*", slug(one))
    assert (slug(one) == slug(other)) == (one == other)


def test_settings_become_blocks_and_words_stay_words():
    text = "Java: two restarts, first with\npartition.assignment.strategy=A,B\n# both\nthen with\n  x.y = 1"
    assert paragraphs(text) == [
        ("words", "Java: two restarts, first with"),
        ("config", "partition.assignment.strategy=A,B\n# both"),
        ("words", "then with"),
        ("config", "x.y = 1"),
    ]


@pytest.mark.parametrize(("library", "blocks"), [("kafka-python", 1), ("aiokafka", 1), ("franz-go", 2), ("java", 2)])
def test_all_lines_of_code_are_to_copy_and_no_words(library, blocks):
    (note,) = migration_notes("range", "cooperative-sticky", [library])
    found = [text for kind, text in paragraphs(note.lines) if kind == "config"]
    assert len(found) == blocks
    assert not any("restarts" in text for text in found)
    assert all(line.startswith(("from counterpoise", "partition", "kgo.")) for text in found for line in text.splitlines())
    assert ("import" in found[0]) == (library == "kafka-python")


def test_a_look_is_fixed_by_first_appearance_and_letters_never_repeat():
    keys = [f"c{i}" for i in range(60)]
    some, more = looks(keys[:10]), looks(keys)
    assert {key: more[key] for key in keys[:10]} == some
    assert len({look.letter for look in more.values()}) == 60
    assert len({look.slot for look in more.values()}) == HUES * PATTERNS


def test_members_are_called_by_client_id_unless_two_share_it_at_once():
    steps = [[("m1", "app"), ("m2", "rdkafka"), ("m3", "rdkafka")], [("m4", "app"), ("m5", "")]]
    assert identities(steps) == {"m1": "app", "m2": "m2", "m3": "m3", "m4": "app", "m5": "m5"}


def test_a_time_of_day_has_its_day_where_it_may_come_twice() -> None:
    moment = 1_795_233_897_000_000
    assert (clock(moment), clock(moment, day=True)) == ("04:04:57", "2026-11-21 04:04:57")
    assert [long((moment, moment + span)) for span in (0, DAY - 1, DAY)] == [False, False, True]

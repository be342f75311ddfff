"""Schema: it survives JSON, refuses what contradicts itself, and keeps the ids of two sides apart."""

import json
import string

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapgnn.data import Schema, SchemaRequest
from tapgnn.data.reading.clock import UNITS
from tapgnn.data.schema import KINDS
from tapgnn.errors import ConfigError

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
IDS = (
    st.integers(-(2**63), 2**63 - 1) | st.text(string.printable, min_size=1, max_size=4) | st.sampled_from(["7", '"7'])
)


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, min_size=5, max_size=9, unique=True))
    some = names[5:]
    kinds = draw(st.lists(st.sampled_from([*KINDS, "dropped"]), min_size=len(some), max_size=len(some)))
    pairs = list(zip(some, kinds, strict=True))
    return Schema(
        *names[:3],
        draw(st.none() | st.just(names[3])),
        draw(st.none() | st.just(names[4])),
        {name: kind for name, kind in pairs if kind != "dropped"},
        tuple(name for name, kind in pairs if kind == "dropped"),
        draw(st.sampled_from(list(UNITS))),
        draw(st.none() | st.just("%d/%m/%Y %H:%M")),
        draw(st.sampled_from(["UTC", "Europe/Paris"])),
        draw(st.booleans()),
        draw(st.none() | st.just(("legit", "fraud"))),
    )


@given(schema=schemas())
def test_a_schema_survives_its_json(schema):
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert list(again.columns) == list(schema.columns)
    jsonschema_rs.meta.validate(json.loads(json.dumps(schema.json_schema())))


@given(schema=schemas(), src=st.lists(IDS, max_size=6), dst=st.lists(IDS, max_size=6))
def test_ids_of_two_sides_never_coincide_and_come_back(schema, src, dst):
    sources, targets = schema.internal_src(src), schema.internal_dst(dst)
    assert schema.external(sources) == src
    assert schema.external(targets) == dst
    assert len(set(sources)) == len(set(src))
    if schema.bipartite:
        assert not set(sources) & set(targets)


def test_names_that_start_alike_do_not_mix_the_sides():
    schema = Schema("a", "a:b", "time", bipartite=True)
    assert schema.internal_src(["b:1"])[0] != schema.internal_dst([1])[0]
    assert schema.external([*schema.internal_src(["b:1"]), *schema.internal_dst([1])]) == ["b:1", 1]


EVENT = {"card": 7, "shop": "x", "when": "2026-03-01", "amount": 1.5, "channel": "ecom", "chip": True, "note": "n"}
SCHEMA = Schema(
    "card", "shop", "when", columns={"amount": "number", "channel": "category", "chip": "boolean"}, dropped=("note",)
)


def test_the_json_schema_takes_an_event_of_the_table_and_names_what_is_wrong():
    valid = jsonschema_rs.validator_for(SCHEMA.json_schema())
    assert valid.is_valid(EVENT)
    assert valid.is_valid({**EVENT, "amount": None, "channel": None})
    assert valid.is_valid({name: EVENT[name] for name in ("card", "shop", "when")})
    for wrong in ({"amount": "much"}, {"chip": 3}, {"card": None}, {"card": ""}, {"amuont": 1.0}):
        assert not valid.is_valid(EVENT | wrong)
    assert not valid.is_valid({"card": 1, "shop": 2})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dst": "card"}, "'card' has two roles"),
        ({"columns": {"amount": "money"}}, "kind 'money'"),
        ({"columns": ["amount"]}, "columns must be"),
        ({"dropped": ["card"]}, "two roles"),
        ({"time_unit": "week"}, "unit of time 'week'"),
        ({"time_zone": "Mars"}, "time zone 'Mars'"),
        ({"time_format": "%Q"}, "has %Q"),
        ({"time_format": "%H:%M"}, "gives no day"),
        ({"label_values": ["a"]}, "label_values"),
        ({"bipartite": 1}, "bipartite"),
        ({"colour": 1}, "unknown entry 'colour'"),
        ({"src": ""}, "not the name"),
        ({"src": 3}, "src must be a string, not 3"),
    ],
)
def test_a_damaged_description_is_refused_in_one_line(changes, says):
    with pytest.raises(ConfigError, match=says) as caught:
        Schema.from_dict(SCHEMA.to_dict() | changes)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="no entry 'src'"):
        Schema.from_dict({"dst": "a", "time": "b"})
    with pytest.raises(ConfigError, match="expected an object"):
        Schema.from_dict([1])


def test_a_request_refuses_a_clock_that_does_not_exist():
    with pytest.raises(ConfigError, match="unit of time"):
        SchemaRequest(time_unit="fortnight")

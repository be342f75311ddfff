"""One event as HTTP takes it: the validator of JSON bodies and the description in the OpenAPI document, from a schema.

Both are strict: a number is not a text, a boolean is not a number, an unknown field is an error, nothing is infinite.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic_core import CoreSchema, core_schema

from tapgnn.online.journal.cell_conversion import ID_LENGTH, NUMBER_LIMIT, TEXT_LENGTH
from tapgnn.online.journal.event_rows import ALIASES, EventFields

TIME_LENGTH = 100


def event_list_schema(fields: EventFields, most: int) -> CoreSchema:
    """The validator of `{"events": [...]}` with 1 to `most` events.

    Unknown fields are let through, for the parser to refuse: a validator would list a million of them one by one.
    """
    schema = fields.schema
    known: dict[str, core_schema.TypedDictField] = {}

    def add(name: str, kind: CoreSchema, alias: str | None = None, required: bool = False) -> None:
        names = [[name], [alias]] if alias is not None and alias != name and fields.known.get(alias) == alias else None
        known[name] = core_schema.typed_dict_field(kind, required=required, validation_alias=names)  # type: ignore[arg-type]

    for role, name in (("src", schema.src), ("dst", schema.dst)):
        add(name, _NODE, role, required=True)
    add(schema.time, _time(fields), "time", required=True)
    for name, kind in schema.columns.items():
        add(name, _KINDS[kind])
    label = schema.label or "label"
    if fields.known[label] == "label":
        add(label, _label(fields), "label")
    if schema.id is not None:
        add(schema.id, core_schema.nullable_schema(_NODE))
    for name in schema.dropped:
        add(name, core_schema.any_schema())
    if fields.features is not None and fields.known["features"] == "features":
        width = len(fields.features)
        numbers = core_schema.list_schema(_KINDS["number"], min_length=width, max_length=width, strict=True)
        add("features", core_schema.nullable_schema(numbers))
    event = core_schema.typed_dict_schema(known, extra_behavior="allow", strict=True)
    events = core_schema.list_schema(event, min_length=1, max_length=most, strict=True, fail_fast=True)
    body = {"events": core_schema.typed_dict_field(events, required=True)}
    return core_schema.typed_dict_schema(body, extra_behavior="allow", strict=True)


def event_json_schema(fields: EventFields) -> dict[str, Any]:
    """One event as JSON Schema, with the bounds that are checked."""
    found = fields.schema.json_schema()
    found.pop("$schema")
    found["title"] = "Event"
    properties = found["properties"]
    if "label" not in properties and fields.known["label"] == "label":
        properties["label"] = {"type": ["integer", "boolean", "null"]}
    if fields.features is not None and fields.known["features"] == "features":
        width = len(fields.features)
        numbers = {"type": "array", "items": {"type": ["number", "null"]}, "minItems": width, "maxItems": width}
        properties["features"] = {
            "anyOf": [numbers, {"type": "null"}],
            "description": f"The columns f0 to f{width - 1}.",
        }
    aliases = [f"`{alias}` stands for `{fields.called(alias)}`" for alias in ALIASES if alias != fields.called(alias)]
    found["description"] = "; ".join(["One row of the table", *aliases]) + "."
    return found


def example_event(fields: EventFields, time: float, src: str = "a00001", dst: str = "m0001") -> dict[str, Any]:
    """An event that can be sent, as JSON has it."""
    schema, form = fields.schema, fields.schema.clock.format
    when = time if form is None else datetime.fromtimestamp(time, UTC).strftime(form)
    event = {schema.src: src, schema.dst: dst, schema.time: when}
    cells = {"number": 1.0, "category": "text", "boolean": True}
    return event | {name: cells[kind] for name, kind in schema.columns.items()}


def _strict(kind: CoreSchema, message: str) -> CoreSchema:
    return core_schema.custom_error_schema(kind, "value", custom_error_message=message)


def _text_or_whole(text: CoreSchema) -> CoreSchema:
    return core_schema.union_schema([text, _WHOLE], mode="left_to_right")


_WHOLE = core_schema.int_schema(ge=-(2**63), le=2**63 - 1, strict=True)
_NODE = _strict(
    _text_or_whole(core_schema.str_schema(min_length=1, max_length=ID_LENGTH, strict=True)),
    f"an id is a string of 1 to {ID_LENGTH:,} characters or an integer of 64 bits",
)
_KINDS = {
    "number": _strict(
        core_schema.nullable_schema(
            core_schema.float_schema(ge=-NUMBER_LIMIT, le=NUMBER_LIMIT, allow_inf_nan=False, strict=True)
        ),
        "expected a finite number, or null where it is missing",
    ),
    "category": _strict(
        core_schema.nullable_schema(_text_or_whole(core_schema.str_schema(max_length=TEXT_LENGTH, strict=True))),
        f"expected a string of at most {TEXT_LENGTH:,} characters or an integer, or null where it is missing",
    ),
    "boolean": _strict(
        core_schema.nullable_schema(core_schema.bool_schema(strict=True)),
        "expected true or false, or null where it is missing",
    ),
}


def _time(fields: EventFields) -> CoreSchema:
    clock = fields.schema.clock
    number = core_schema.float_schema(gt=-clock.largest, lt=clock.largest, allow_inf_nan=False, strict=True)
    if clock.format is not None:
        # A date such as 20240229 may come as an integer.
        number = core_schema.union_schema([_WHOLE, number], mode="left_to_right")  # type: ignore[assignment]
    text = core_schema.str_schema(min_length=1, max_length=TIME_LENGTH, strict=True)
    union = core_schema.union_schema([number, text], mode="left_to_right")
    dates = f"a text written as {clock.format}" if clock.format else "an ISO date or datetime"
    return _strict(union, f"a time is a finite number below 2^53 in the unit of the model's log, or {dates}")


def _label(fields: EventFields) -> CoreSchema:
    # 1.0 is an integer, too: a column of integers with gaps often comes so.
    whole = core_schema.float_schema(multiple_of=1.0, gt=-(2.0**53), lt=2.0**53, allow_inf_nan=False, strict=True)
    members: list[CoreSchema] = [core_schema.bool_schema(strict=True), _WHOLE, whole]
    words = "expected an integer, true or false, or null where it is not known"
    if fields.schema.label_values is not None:
        members.append(core_schema.str_schema(max_length=TEXT_LENGTH, strict=True))
        words = "expected one of the two labels of the table, or null where it is not known"
    return _strict(core_schema.nullable_schema(core_schema.union_schema(members, mode="left_to_right")), words)  # type: ignore[arg-type]

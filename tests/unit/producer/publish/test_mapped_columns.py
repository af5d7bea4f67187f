"""Writers of a table with a mapper: the same records as the row-at-a-time path, for any rules."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.record_key import Record
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Table
from cdcbus.plugins.transform.cells.expression import Expression, Reference, constant
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.record_transform import RecordTransform, Way
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.plugins.transform.selectors import is_pattern
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.mapped_columns import record_columns
from cdcbus.producer.publish.routes import row_at_a_time
from cdcbus.producer.source.row_events import Rows
from tests.unit.producer.publish.row_images import (
    BOTH,
    FORMATS,
    WRITE,
    cases,
    numbered,
    outcome,
)

pytestmark = pytest.mark.usefixtures("stopped_clock")

MASKS = st.sampled_from(
    [
        Mask("hash", text="salt"),
        Mask("truncate", 1),
        Mask("truncate"),
        Mask("fixed", text='*"'),
        Mask("fixed"),
    ]
)


def _is_referable(column: str) -> bool:
    """Whether a task file can name the column in an expression."""
    return not column.startswith("@")


@st.composite
def rules(draw: DrawFn, table: Table, *, is_constant: bool) -> MapperRule:
    """Any rule for a table, of which many cannot be applied."""
    names = [column.name for column in table.columns]
    some = st.sets(st.sampled_from(names), max_size=2)
    targets = st.sampled_from(["A", "b'", "{c}", *names])
    parts = st.one_of(
        st.sampled_from(["x", '"{', ""]),
        st.builds(
            Reference,
            st.sampled_from([*filter(_is_referable, names), "@table"]),
            st.sampled_from(["", "upper", "1-2"]),
        ),
    )
    expressions = st.builds(lambda parts: Expression(tuple(parts)), st.lists(parts, max_size=3))
    return MapperRule(
        table=None if is_pattern(table.id.table) else (table.id.table, draw(targets)),
        columns=draw(st.dictionaries(st.sampled_from(names), targets, max_size=2)),
        included=frozenset(name.lower() for name in draw(st.sampled_from([[], [], names[:2]]))),
        ignored=frozenset(name.lower() for name in draw(some)),
        computed=draw(
            st.dictionaries(
                targets,
                st.just(constant('"{k}')) if is_constant else expressions,
                max_size=2,
            )
        ),
        masks=draw(st.dictionaries(st.sampled_from(names).map(str.lower), MASKS, max_size=2)),
    )


def _way(
    rows: Rows, name: str, rule: MapperRule, key: tuple[str, ...]
) -> tuple[RecordTransform, Way]:
    """By the rule, and where it can be the key by some columns."""
    table = rows.table.table
    mapper = Mapper([rule])
    [route] = mapper.routes(table.id)
    keys = {str(route.target).upper(): tuple(filter(None, map(route.wanted, key)))} if key else {}
    transform = RecordTransform(mapper, PublishConfig("h", "t", name, keys))
    [way] = transform.ways(table)
    return transform, way


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100)
@given(case=cases(), first_row=st.integers(0, 5), data=st.data())
def test_records_of_both_writers_are_those_of_the_plain_mapper(
    name: str,
    is_constant: bool,
    case: tuple[Rows, tuple[str, ...]],
    first_row: int,
    data: st.DataObject,
) -> None:
    rows, key = case
    rule = data.draw(rules(rows.table.table, is_constant=is_constant))
    try:
        transform, way = _way(rows, name, rule, key)
    except ConfigError:
        assume(False)

    plainly = row_at_a_time(transform, way)

    def wanted() -> tuple[list[Record], int]:
        changes = rows.changes(first_row)
        return [record for change in changes for record in plainly(change)], len(changes)

    columns = record_columns(rows.table, way.plan, way.key)
    assume(columns is not None)
    expected = outcome(wanted)
    for make_plan in BOTH:
        writer = TableWriter(
            rows.table,
            make_converter(name),
            way.key,
            plainly,
            columns=columns,
            takes_partial=True,
            make_plan=make_plan,
        )
        found = outcome(lambda writer=writer: writer.records(rows, first_row))  # type: ignore[misc]
        assert found == expected, make_plan


def test_a_key_column_that_is_computed_by_a_name_in_another_case_takes_the_plain_way() -> None:
    rows = numbered(WRITE, range(2))
    rule = MapperRule(computed={"ID": constant("x")})
    _, way = _way(rows, "canalRow", rule, ())
    assert record_columns(rows.table, way.plan, way.key) is None

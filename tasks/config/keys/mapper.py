"""The keys `mapper[i].*`: where tables and columns go, and what their cells become."""

from __future__ import annotations

from cdcbus.plugins.transform.cells.expression import Expression, read_expression
from cdcbus.plugins.transform.cells.mask import FORMS, Mask, read_mask
from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.types import FLAG, NAMES, PAIR, TEXT, ValueType

EXPRESSION: ValueType[Expression] = ValueType(
    "expression",
    read_expression,
    "text with {COLUMN} or {COLUMN:upper}, lower, trim or 1-4 in it",
    "{FIRST_NAME} {LAST_NAME:upper}",
)
# a salt may be part of it
MASK: ValueType[Mask] = ValueType("mask", read_mask, FORMS, "truncate:4", is_shown=False)

MAPPER_KEYS = (
    Key(
        "mapper[i].schema",
        PAIR,
        "",
        "`source,target`: the schema this entry is for, or a regular expression for several, and "
        "its name at the target; absent: any. "
        "See [mapping](loading.md#mapping).",
        "anything but two names is ignored; no expressions",
    ),
    Key(
        "mapper[i].table",
        PAIR,
        "",
        "`source,target`: the table this entry is for, or a regular expression for several, and "
        "its name at the target; absent: any.",
        "anything but two names is ignored; no expressions",
    ),
    Key(
        "mapper[i].column.<COLUMN>",
        TEXT,
        "",
        "The target's name of this source column; others keep theirs.",
    ),
    Key(
        "mapper[i].include",
        NAMES,
        "",
        "Only these source columns are written, any case; absent: all.",
        "not known",
    ),
    Key(
        "mapper[i].ignore",
        NAMES,
        "",
        "These source columns are not written, any case.",
        "not known",
    ),
    Key(
        "mapper[i].constant.<COLUMN>",
        TEXT,
        "",
        "What this target column holds in every row.",
        "not known",
    ),
    Key(
        "mapper[i].expression.<COLUMN>",
        EXPRESSION,
        "",
        "What this target column holds: text with source columns in it, see [computed "
        "columns](loading.md#computed-columns).",
        "not known",
    ),
    Key(
        "mapper[i].mask.<COLUMN>",
        MASK,
        "",
        "What stands in place of this source column's cells: `hash` or `hash:SALT` (SHA-256), "
        "`truncate:N` (the first N characters), "
        "`fixed:TEXT`; NULL stays NULL.",
        "not known",
    ),
    Key(
        "mapper[i].forceMatched",
        FLAG,
        "true",
        "Whether a source column that the target lacks holds the task up until it is there; "
        "false: the column is left out, and the rows "
        "are counted. No meaning for CanalFetch.",
        "true: the task stops",
    ),
    Key(
        "mapper[i].ignoreTargetCase",
        FLAG,
        "true",
        "Whether target names are taken in upper case.",
        answer="accepted; a target name is matched exactly, else in any case",
    ),
    Key(
        "mapper[i].updateDate",
        PAIR,
        "",
        "`source,target`: columns of the last change, for row-count checks.",
        answer="accepted; this release makes no row-count checks",
    ),
    Key(
        "mapper[i].auto",
        TEXT,
        "",
        "Nothing, since 2018.",
        "ignored",
        dead="without meaning since 2018, in porter too; remove the line",
    ),
)

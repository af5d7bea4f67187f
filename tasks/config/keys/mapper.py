"""The keys `mapper[i].*`: which target tables and columns rows go to, and how cells change."""

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
# A wrong value is not shown: it may hold a salt.
MASK: ValueType[Mask] = ValueType("mask", read_mask, FORMS, "truncate:4", is_shown=False)

MAPPER_KEYS = (
    Key(
        "mapper[i].schema",
        PAIR,
        "",
        "`source,target`: the source schema that this entry applies to, or a regular expression "
        "for several, and its name at the target. If unset, any schema. See "
        "[mapping](loading.md#mapping).",
        "anything but two names is ignored; no expressions",
    ),
    Key(
        "mapper[i].table",
        PAIR,
        "",
        "`source,target`: the source table that this entry applies to, or a regular expression for "
        "several, and its name at the target. If unset, any table.",
        "anything but two names is ignored; no expressions",
    ),
    Key(
        "mapper[i].column.<COLUMN>",
        TEXT,
        "",
        "The target name of this source column. Other columns keep theirs.",
    ),
    Key(
        "mapper[i].include",
        NAMES,
        "",
        "Writes only these source columns, in any case. If unset, all.",
        "not known",
    ),
    Key(
        "mapper[i].ignore",
        NAMES,
        "",
        "Leaves out these source columns, in any case.",
        "not known",
    ),
    Key(
        "mapper[i].constant.<COLUMN>",
        TEXT,
        "",
        "The value of this target column in every row.",
        "not known",
        is_free_text=True,
    ),
    Key(
        "mapper[i].expression.<COLUMN>",
        EXPRESSION,
        "",
        "The value of this target column: text that contains source columns. See [computed "
        "columns](loading.md#computed-columns).",
        "not known",
        is_free_text=True,
    ),
    Key(
        "mapper[i].mask.<COLUMN>",
        MASK,
        "",
        "What replaces the values of this source column: `hash` or `hash:SALT` (SHA-256), "
        "`truncate:N` (the first N characters), or `fixed:TEXT`. NULL stays NULL.",
        "not known",
        is_free_text=True,
    ),
    Key(
        "mapper[i].forceMatched",
        FLAG,
        "true",
        "Whether the task waits when the target lacks a source column, until the column exists. "
        "`false`: the column is left out, and the rows are counted. No effect in CanalFetch.",
        "true: the task stops",
    ),
    Key(
        "mapper[i].ignoreTargetCase",
        FLAG,
        "true",
        "Whether target names are converted to upper case.",
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

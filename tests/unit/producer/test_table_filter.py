"""Which tables are read."""

from __future__ import annotations

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FilterConfig
from cdcbus.producer.table_filter import TableFilter

NAMES = (
    "shop.orders",
    "shop.order_lines",
    "Shop.Orders",
    "shop2.orders",
    "shopXorders.x",
    "mysql.user",
)


def accepted(config: FilterConfig) -> set[str]:
    tables = TableFilter(config)
    return {name for name in NAMES if tables.accepts(TableId(*name.split(".")))}


@pytest.mark.parametrize(
    ("regexes", "expected"),
    [
        ((), set(NAMES)),
        ((r".*\..*",), set(NAMES)),
        ((r"shop\.orders",), {"shop.orders", "Shop.Orders"}),
        ((r"SHOP\.(orders|order_lines)",), {"shop.orders", "shop.order_lines", "Shop.Orders"}),
        ((r"shop\.o", r"shop"), set()),  # the whole name must match
        ((r"shop2\..*", r"mysql\..*"), {"shop2.orders", "mysql.user"}),
    ],
)
def test_regular_expressions_match_the_whole_name_in_any_case(
    regexes: tuple[str, ...], expected: set[str]
) -> None:
    assert accepted(FilterConfig(regexes)) == expected


def test_lists_hold_upper_case_names() -> None:
    assert accepted(FilterConfig(includes=frozenset({"SHOP.ORDERS"}))) == {
        "shop.orders",
        "Shop.Orders",
    }
    assert accepted(FilterConfig(excludes=frozenset({"SHOP.ORDERS", "MYSQL.USER"}))) == {
        "shop.order_lines",
        "shop2.orders",
        "shopXorders.x",
    }


def test_excludes_do_not_count_beside_includes() -> None:
    names = frozenset({"SHOP.ORDERS"})
    assert accepted(FilterConfig(includes=names, excludes=names)) == {"shop.orders", "Shop.Orders"}


def test_a_table_must_pass_regular_expression_and_list() -> None:
    assert accepted(
        FilterConfig((r"shop2?\..*",), includes=frozenset({"SHOP2.ORDERS", "MYSQL.USER"}))
    ) == {"shop2.orders"}


def test_what_is_no_regular_expression_is_shown() -> None:
    with pytest.raises(
        ConfigError, match=r"consumer\.source\.filter: '\(shop' is not a regular expression"
    ):
        TableFilter(FilterConfig((r"(shop",)))


def test_heartbeats_are_always_let_through() -> None:
    tables = TableFilter(
        FilterConfig((r"shop\..*",), frozenset({"SHOP.ORDERS"})), TableId("ops", "beats")
    )
    assert tables.accepts(TableId("OPS", "Beats"))
    assert not tables.accepts(TableId("ops", "orders"))


def test_a_table_on_the_black_list_is_not_read_whatever_else_names_it() -> None:
    tables = TableFilter(
        FilterConfig(
            (r"shop\..*",), frozenset(("SHOP.TMP_1", "SHOP.A")), black_regexes=(r".*\.tmp_.*",)
        )
    )
    assert [tables.accepts(TableId("shop", table)) for table in ("a", "TMP_1", "tmp")] == [
        True,
        False,
        False,
    ]


def test_a_black_list_that_is_no_regular_expression_is_named() -> None:
    with pytest.raises(ConfigError, match=r"consumer\.source\.blackFilter: '\(' is not"):
        TableFilter(FilterConfig(black_regexes=("(",)))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (FilterConfig(), {"shop", "shops", "crm"}),
        (FilterConfig(regexes=(r".*\..*",)), {"shop", "shops", "crm"}),
        (FilterConfig(regexes=(r"SHOP\.a",)), {"shop"}),
        (FilterConfig(regexes=(r"^shop\.a$", r"crm\..*")), {"shop", "crm"}),
        (FilterConfig(regexes=(r"shop\.a|crm\.b",)), {"shop", "crm"}),
        (FilterConfig(regexes=(r"(shop|crm)\.a",)), {"shop", "crm"}),
        (FilterConfig(regexes=(r"shops?\.a",)), {"shop", "shops"}),
        (FilterConfig(regexes=(r"shop\d*\.a",)), {"shop", "shops"}),  # for sure only `shop`
        (FilterConfig(regexes=(r"(crm\.a|shop\.b)",)), {"shop", "shops", "crm"}),
        (FilterConfig(regexes=(r"shop.orders",)), {"shop", "shops"}),
        (FilterConfig(regexes=(r"shop[.]orders",)), {"shop", "shops"}),
        (FilterConfig(regexes=(r"sh.*orders",)), {"shop", "shops"}),
        (FilterConfig(regexes=(r"\S+a",)), {"shop", "shops", "crm"}),
        (FilterConfig(regexes=(r"other\..*",)), set()),
        (FilterConfig(regexes=(".*",), black_regexes=(r"shop\..*", "crm.a")), {"shops", "crm"}),
        (FilterConfig(black_regexes=(r".*\.tmp_.*",)), {"shop", "shops", "crm"}),
        (FilterConfig(exclude_patterns=(r"shops?\..*",)), {"crm"}),
        (FilterConfig(includes=frozenset({"SHOP.A"})), {"shop"}),
        (
            FilterConfig(includes=frozenset({"SHOP.A"}), exclude_patterns=(r"shop\..*",)),
            {"shop"},
        ),
        (
            FilterConfig(includes=frozenset({"SHOP.A"}), include_patterns=(r"crm\..*",)),
            {"shop", "crm"},
        ),
        (FilterConfig(regexes=(r"crm\..*",), includes=frozenset({"SHOP.A"})), set()),
    ],
)
def test_a_schema_whose_tables_may_be_wanted(config: FilterConfig, expected: set[str]) -> None:
    """In doubt they may."""
    assert set(filter(TableFilter(config).may_accept_any, ("shop", "shops", "crm"))) == expected

import pytest

from cdcbus.plugins.transform.table_list import TableList, is_selected, read_table_list

NONE = TableList()


@pytest.mark.parametrize(
    ("text", "names", "patterns"),
    [
        ("shop.orders, SHOP.Users ,", {"SHOP.ORDERS", "SHOP.USERS"}, ()),
        ("shop.a$b,shop.v1.x", {"SHOP.A$B", "SHOP.V1.X"}, ()),
        ("my-shop.*", set(), (r"my\-shop\..*",)),
        (r"shop\.t_[0-9]{1,3},shop.users", {"SHOP.USERS"}, (r"shop\.t_[0-9]{1,3}",)),
        (r"shop\.(a,b|c),x.y", {"X.Y"}, (r"shop\.(a,b|c)",)),
        (r"shop\.a[(]b,x.y,shop\.[])]c,x.z", {"X.Y", "X.Z"}, (r"shop\.a[(]b", r"shop\.[])]c")),
        (r"shop[.]t\D*,.*_log,.*\..*", set(), (r"shop[.]t\D*", ".*_log", r".*\..*")),
        ("", set(), ()),
    ],
)
def test_names_and_patterns_are_told_apart(
    text: str, names: set[str], patterns: tuple[str, ...]
) -> None:
    assert read_table_list(text) == TableList(frozenset(names), patterns)


@pytest.mark.parametrize(
    "text",
    [
        *("orders", "*", "*.*", "shop.t_*", "shop.t_.*", r"shop\.t_*", "shop.orders|shop.users"),
        *(r"shop\.(", r"shop\.[a", r"shop\.a{2,1}", "orders.", ".orders"),
    ],
)
def test_what_would_match_other_tables_than_it_seems_to_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not|dot"):
        read_table_list(text)


@pytest.mark.parametrize(
    "text", ["shop.a;shop.b", "shop.a\uff0cshop.b", "shop.a shop.b", r"shop\.a;shop\.b"]
)
def test_other_separators_than_commas_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="separated otherwise than by commas"):
        read_table_list(text)


def test_a_table_may_have_a_space_in_its_name() -> None:
    assert read_table_list("shop.order items").names == {"SHOP.ORDER ITEMS"}


def selected(includes: str, excludes: str = "") -> set[str]:
    names = {"shop.orders", "Shop.T_1", "shop.t_22", "shopx.orders", "shop.secret"}
    lists = read_table_list(includes), read_table_list(excludes)
    return {name for name in names if is_selected(name, *lists)}


@pytest.mark.parametrize(
    ("includes", "excludes", "expected"),
    [
        ("", "", {"shop.orders", "Shop.T_1", "shop.t_22", "shopx.orders", "shop.secret"}),
        ("SHOP.ORDERS", "", {"shop.orders"}),
        ("SHOP.ORDERS", "shop.orders", {"shop.orders"}),  # as in porter
        ("SHOP.*", "", {"shop.orders", "Shop.T_1", "shop.t_22", "shop.secret"}),
        ("SHOP.*", "shop.secret", {"shop.orders", "Shop.T_1", "shop.t_22"}),
        ("SHOP.*,shop.secret", r"shop\.(secret|t_\d+)", {"shop.orders", "shop.secret"}),
        (r"shop\.T_[0-9]", "", {"Shop.T_1"}),
        ("", r"shop\..*", {"shopx.orders"}),
        (
            "",
            r"shop\.t_\D+",
            {"shop.orders", "Shop.T_1", "shop.t_22", "shopx.orders", "shop.secret"},
        ),
    ],
)
def test_includes_and_excludes_select_tables(
    includes: str, excludes: str, expected: set[str]
) -> None:
    assert selected(includes, excludes) == expected

"""What happens in the shop: random transactions that are always valid. Pure: the same seed gives
the same statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from cdcbus.ops.demo.shop.phrases import NAMES, NOTES, THINGS
from cdcbus.ops.demo.shop.schema import SCHEMA
from cdcbus.ops.demo.shop.values import Statement, Values, delete, insert, update

AISLES = ("A", "B", "C", "D")
PLACES = 15
# The place of what is just being moved.
IN_HAND = 65535
OPENING_CUSTOMERS, OPENING_PRODUCTS, OPENING_ORDERS = 120, 90, 60
FEWEST = 40  # customers, products and orders stay above this
RECENT_ORDERS = 400  # only these still change
# The ids soon leave what fits into a signed number.
FIRST_CUSTOMER = 2**63 - 1200

# What happens how often.
DEEDS = {
    "place_order": 24,
    "pay_order": 18,
    "cancel_order": 6,
    "insert_line_in_front": 5,
    "drop_line": 5,
    "greet_customer": 6,
    "change_customer": 14,
    "forget_customer": 4,
    "add_product": 3,
    "change_product": 12,
    "rename_product": 4,
    "drop_product": 3,
    "raise_prices": 0.5,
    "swap_places": 8,
    "shift_places": 1,
    "replace_on_shelf": 3,
    "clear_and_regret": 0.5,
}


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements of one transaction, in order; `is_undone`: it ends with ROLLBACK."""

    statements: list[Statement]
    is_undone: bool = False


@dataclass(slots=True)
class Order:
    """What must be known about an order to change it later: the numbers of its lines, and its
    payment."""

    lines: list[int]
    payment: bytes | None = None


class Shop:
    """Knows which rows exist, so that no statement fails or misses."""

    def __init__(self, seed: int) -> None:
        self.values = Values(seed)
        self.customers: list[int] = []
        self.products: list[str] = []
        self.orders: dict[int, Order] = {}
        self.places: dict[str, list[int]] = {}
        for number, aisle in enumerate(AISLES):
            first = number * PLACES
            self.places[aisle] = list(range(first, first + PLACES))
        self._last_number = 1000

    def opening(self) -> Iterator[Transaction]:
        """The first rows of the empty shop."""
        yield Transaction([self._new_customer() for _ in range(OPENING_CUSTOMERS)])
        yield Transaction([self._new_product() for _ in range(OPENING_PRODUCTS)])
        for aisle, ids in self.places.items():
            places = []
            for place, id in enumerate(ids):
                places.append(self._new_place(id, aisle, place))
            yield Transaction(places)
        for _ in range(OPENING_ORDERS):
            yield Transaction(self.place_order())

    def next(self) -> Transaction:
        """The next transaction."""
        deed = self.values.random.choices(list(DEEDS), list(DEEDS.values()))[0]
        return Transaction(getattr(self, deed)(), is_undone=deed == "clear_and_regret")

    # orders

    def place_order(self) -> list[Statement]:
        """An order with up to five lines; the stock goes down with each."""
        values, id = self.values, self._next_number()
        lines = list(range(1, values.random.randint(1, 5) + 1))
        self.orders[id] = Order(lines)
        statements = [
            insert(
                "orders",
                id=id,
                customer_id=values.one_of(self.customers),
                state="new",
                ordered=values.moment(digits=3),
                paid=None,
                pick_up=values.maybe(timedelta(milliseconds=values.random.randrange(86_400_000))),
                total=values.money(),
                note=values.one_of(NOTES),
            )
        ]
        for line in lines:
            sku, quantity = values.one_of(self.products), values.random.randint(1, 9)
            statements.append(self._new_line(id, line, sku, quantity))
            statements.append(
                (
                    # Never below 0, which an UNSIGNED column would refuse.
                    f"UPDATE {SCHEMA}.products SET stock = GREATEST(stock, %s) - %s WHERE sku = %s",
                    (quantity, quantity, sku),
                )
            )
        return statements

    def pay_order(self) -> list[Statement]:
        """An order is paid, or sent if it was paid already."""
        values, id = self.values, self._some_order()
        order = self.orders[id]
        if order.payment is not None:
            return [update("orders", {"id": id}, state="sent", note=values.one_of(NOTES))]
        # Every eighth id ends with zero bytes, which BINARY columns also use for filling up.
        order.payment = values.random.randbytes(14)
        if values.random.random() < 0.125:
            order.payment += b"\0\0"
        else:
            order.payment += values.random.randbytes(2)
        payment = insert(
            "payments",
            id=order.payment,
            order_id=id,
            amount=values.decimal(20, 6),
            currency=values.one_of(("EUR", "CNY", "¥", "")),
            booked_year=values.random.randint(1990, 2030),
        )
        return [update("orders", {"id": id}, state="paid", paid=values.moment()), payment]

    def cancel_order(self) -> list[Statement]:
        """An order is deleted, with everything that belongs to it."""
        if len(self.orders) <= FEWEST:
            return self.place_order()
        id = self._some_order()
        del self.orders[id]
        return [
            delete("order_lines", order_id=id),
            delete("payments", order_id=id),
            delete("orders", id=id),
        ]

    def insert_line_in_front(self) -> list[Statement]:
        """Every line of an order moves to the next number: keys change one after the other, each
        into the place just left."""
        id = self._some_order()
        lines = self.orders[id].lines
        lines[:] = [1, *(line + 1 for line in lines)]
        return [
            (
                # From the last line on, so that each number is free before it is taken.
                f"UPDATE {SCHEMA}.order_lines SET line = line + 1 WHERE order_id = %s ORDER BY "
                "line DESC",
                (id,),
            ),
            self._new_line(id, 1, self.values.one_of(self.products), 1),
        ]

    def drop_line(self) -> list[Statement]:
        """One line of an order is deleted; another may get its number again later."""
        id = self._some_order()
        if len(self.orders[id].lines) < 2:
            return self.pay_order()
        return [
            delete("order_lines", order_id=id, line=self.values.taken_out(self.orders[id].lines))
        ]

    # customers

    def greet_customer(self) -> list[Statement]:
        """A new customer."""
        return [self._new_customer()]

    def change_customer(self) -> list[Statement]:
        """Credit, profile and more of a customer change; some columns become NULL."""
        values = self.values
        change = update(
            "customers",
            {"id": values.one_of(self.customers)},
            email=values.maybe(f"mail{values.random.randrange(10**6)}@example.org"),
            tier=values.one_of(("bronze", "silver", "gold")),
            wants=values.one_of(("", "news", "gifts,catalogue", "news,gifts,catalogue")),
            credit=values.decimal(12, 4),
            profile=values.document(),
            seen=values.maybe(values.moment()),
        )
        return [change]

    def forget_customer(self) -> list[Statement]:
        """A customer is deleted."""
        if len(self.customers) <= FEWEST:
            return self.greet_customer()
        return [delete("customers", id=self.values.taken_out(self.customers))]

    # products

    def add_product(self) -> list[Statement]:
        """A new product."""
        return [self._new_product()]

    def change_product(self) -> list[Statement]:
        """Stock, weight, picture and more of a product change."""
        values = self.values
        change = update(
            "products",
            {"sku": values.one_of(self.products)},
            stock=values.random.randrange(2**32),
            weight=values.maybe(values.double(300)),
            rating=values.maybe(values.double(30)),
            is_sold=values.random.random() < 0.5,
            marks=values.random.randrange(256),
            picture=values.picture(),
        )
        return [change]

    def rename_product(self) -> list[Statement]:
        """A product's key changes, and a new product immediately gets the old key."""
        old, new = self.values.one_of(self.products), self._new_sku()
        return [update("products", {"sku": old}, sku=new), self._product(old)]

    def drop_product(self) -> list[Statement]:
        """A product is deleted."""
        if len(self.products) <= FEWEST:
            return self.add_product()
        return [delete("products", sku=self.values.taken_out(self.products))]

    def raise_prices(self) -> list[Statement]:
        """Many rows by one statement."""
        rising = self.values.random.randrange(256)
        return [
            (
                # Within what DECIMAL(10,2) holds.
                f"UPDATE {SCHEMA}.products SET price = LEAST(price + 0.37, 99999999) WHERE marks "
                "< %s",
                (rising,),
            )
        ]

    # shelf places: a second unique key, whose values move from row to row

    def swap_places(self) -> list[Statement]:
        """Two things in an aisle change places."""
        ids = self.places[self.values.one_of(AISLES)]
        one, other = self.values.random.sample(range(PLACES), 2)
        ids[one], ids[other] = ids[other], ids[one]
        # By way of a free place, as each statement must keep the key unique.
        return [_moved(ids[other], IN_HAND), _moved(ids[one], one), _moved(ids[other], other)]

    def shift_places(self) -> list[Statement]:
        """Everything in an aisle moves on by one place, the last one to the front."""
        ids = self.places[self.values.one_of(AISLES)]
        ids.insert(0, ids.pop())
        statements = [_moved(ids[0], IN_HAND)]
        # From the end on, so that each place is free before it is taken.
        for place in reversed(range(PLACES)):
            statements.append(_moved(ids[place], place))
        return statements

    def replace_on_shelf(self) -> list[Statement]:
        """Something is taken away and another thing gets its place: a unique value goes from a
        deleted row to a new one."""
        aisle, place, id = (
            self.values.one_of(AISLES),
            self.values.random.randrange(PLACES),
            self._next_number(),
        )
        gone, self.places[aisle][place] = self.places[aisle][place], id
        return [delete("shelf_places", id=gone), self._new_place(id, aisle, place)]

    def clear_and_regret(self) -> list[Statement]:
        """Everything is deleted, but nothing has happened: the transaction is rolled back."""
        return [
            (f"DELETE FROM {SCHEMA}.shelf_places", ()),
            (f"UPDATE {SCHEMA}.customers SET credit = 0", ()),
        ]

    # rows

    def _new_customer(self) -> Statement:
        values = self.values
        self.customers.append(FIRST_CUSTOMER + self._next_number())
        return insert(
            "customers",
            id=self.customers[-1],
            name=values.one_of(NAMES),
            email=None,
            tier="bronze",
            wants="",
            born=values.maybe(date(1924, 2, 29) + timedelta(values.random.randrange(33_000))),
            credit=values.money(),
            profile=values.document(),
            seen=None,
        )

    def _new_product(self) -> Statement:
        return self._product(self._new_sku())

    def _product(self, sku: str) -> Statement:
        values = self.values
        return insert(
            "products",
            sku=sku,
            title=values.one_of(THINGS),
            price=values.money(),
            weight=values.maybe(values.random.random() * 1000),
            rating=values.maybe(values.random.random() * 5),
            stock=values.random.randrange(2**31, 2**32),
            is_sold=True,
            marks=values.random.randrange(256),
            picture=values.picture(),
        )

    def _new_line(self, order: int, line: int, sku: str, quantity: int) -> Statement:
        values = self.values
        code = values.maybe(values.random.randbytes(values.random.randrange(17)))
        return insert(
            "order_lines",
            order_id=order,
            line=line,
            sku=sku,
            quantity=quantity,
            price=values.money(),
            gift_code=code,
        )

    def _new_place(self, id: int, aisle: str, place: int) -> Statement:
        return insert(
            "shelf_places",
            id=id,
            aisle=aisle,
            place=place,
            label=self.values.maybe(self.values.one_of(THINGS)),
        )

    def _new_sku(self) -> str:
        self.products.append(f"SKU-{self._next_number():06d}")
        return self.products[-1]

    def _some_order(self) -> int:
        return self.values.one_of(list(self.orders)[-RECENT_ORDERS:])

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number


def _moved(id: int, place: int) -> Statement:
    return update("shelf_places", {"id": id}, place=place)

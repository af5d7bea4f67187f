"""Settings of canal, Debezium and Maxwell as task files: every key is carried over, or said."""

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.producer_options import producer_options
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.keys.types import REGEXES
from cdcbus.tasks.config.read_task import inspect_text
from cdcbus.tasks.foreign import canal, debezium, maxwell
from cdcbus.tasks.foreign.conversion import Conversion, Rule, literal_table
from cdcbus.tasks.foreign.files import task_text
from cdcbus.tasks.foreign.regexes import split_regexes

CANAL = {
    "canal.instance.destination": "example",
    "canal.serverMode": "kafka",
    "canal.instance.master.address": "db1:3306",
    "canal.instance.dbUsername": "canal",
    "canal.instance.dbPassword": "s3cret",
    "canal.mq.topic": "example",
    "kafka.bootstrap.servers": "k1:9092,k2:9092",
    "canal.mq.partitionHash": r".*\..*:$pk$",
    "canal.instance.master.journal.name": "mysql-bin.000003",
    "canal.instance.master.position": "154",
}
DEBEZIUM = {
    "name": "inventory",
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "database.hostname": "db1",
    "database.user": "dbz",
    "database.password": "s3cret",
    "topic.prefix": "dbserver1",
    "schema.history.internal.kafka.bootstrap.servers": "k1:9092",
}
MAXWELL = {
    "producer": "kafka",
    "client_id": "maxwell",
    "host": "db1",
    "user": "maxwell",
    "password": "s3cret",
    "kafka.bootstrap.servers": "k1:9092",
    "kafka_topic": "rows",
    "producer_partition_by": "primary_key",
}


def of_canal(**more: str) -> Conversion:
    return canal.from_canal(CANAL | spelled(more), "example")


def of_debezium(**more: str) -> Conversion:
    return debezium.from_debezium(debezium.connector_of(DEBEZIUM | spelled(more)))


def of_maxwell(**more: str) -> Conversion:
    return maxwell.from_maxwell(MAXWELL | more)


def taken(made: Conversion, *tables: str) -> set[str]:
    """Those of these tables that the task reads."""
    inspection = inspect_text(task_text(made, made.tool), {}, sources=lambda _: None)
    task = inspection.task
    assert isinstance(task, FetchTask)
    accepted = TableFilter(task.tables)
    return {table for table in tables if accepted.accepts(TableId(*table.split(".")))}


def spelled(keys: dict[str, str]) -> dict[str, str]:
    return {key.replace("__", "."): value for key, value in keys.items()}


def errors(made: Conversion) -> dict[str, str]:
    return {each.key: each.sentence for each in made.found.of(Severity.ERROR)}


def warned(made: Conversion) -> set[str]:
    return {each.key for each in made.found.of(Severity.WARNING)}


def said(made: Conversion) -> set[str]:
    return {each.key for each in made.found.found}


@pytest.mark.parametrize("made", [of_canal(), of_debezium(), of_maxwell(init_position="b.1:4:7")])
def test_a_plain_file_becomes_a_task_that_can_run(made: Conversion) -> None:
    assert errors(made) == {}
    inspection = inspect_text(task_text(made, made.tool), {}, sources=lambda _: None)
    assert inspection.diagnostics.of(Severity.ERROR) == []
    assert inspection.task is not None
    assert "s3cret" not in "".join(each.sentence for each in made.found.found)


@pytest.mark.parametrize(
    "rules", [canal.RULES, debezium.RULES, maxwell.RULES], ids=["canal", "Debezium", "Maxwell"]
)
def test_rules_name_known_keys_or_say_why_there_is_none(rules: dict[str, Rule]) -> None:
    for name, rule in rules.items():
        assert bool(rule.ours) + bool(rule.convert) + bool(rule.sentence) == 1, name
        assert not rule.ours or find_key(rule.ours), name


@pytest.mark.parametrize(
    "made",
    [of_canal(canal__new="1"), of_debezium(brand__new="1"), of_maxwell(brand_new="1")],
    ids=["canal", "Debezium", "Maxwell"],
)
def test_a_key_that_is_not_known_is_a_warning(made: Conversion) -> None:
    assert warned(made) & {"canal.new", "brand.new", "brand_new"}


def test_no_setting_is_dropped_without_a_word() -> None:
    odd = {
        "canal__instance__rds__accesskey": "k",
        "canal__instance__tsdb__enable": "true",
        "canal__instance__detecting__enable": "true",
        "canal__instance__filter__table__error": "true",
        "canal__instance__filter__rows": "true",
        "canal__mq__flatMessage": "false",
        "canal__instance__enableDruid": "true",
        "canal__instance__gtidon": "true",
    }
    assert set(spelled(odd)) <= said(of_canal(**odd))
    assert errors(of_canal(**odd)).keys() == {
        "canal.instance.filter.rows",
        "canal.mq.flatMessage",
        "canal.instance.enableDruid",
    }
    assert "consumer.source.password" not in of_canal(**odd).keys


def test_canals_tables_topics_and_partitions_are_carried_over() -> None:
    made = of_canal(
        canal__instance__filter__regex=r"shop\..*,bank\.acc",
        canal__instance__filter__black__regex=r"shop\.tmp_.*",
        canal__mq__dynamicTopic=r"shop\..*;bank",
        canal__mq__partitionHash=r"shop.orders:id^customer,.*\..*:$pk$,bank.x",
        canal__instance__standby__address="db2:3306",
    )
    keys = made.finished()
    regex = re.compile(keys["consumer.source.filter"])
    black = re.compile(keys["consumer.source.blackFilter"])
    tables = ("shop.orders", "shop.tmp_1", "bank.acc", "bank.acc2", "x.y")
    assert [bool(regex.fullmatch(table)) for table in tables] == [True, True, True, False, False]
    assert [bool(black.fullmatch(table)) for table in tables] == [False, True, False, False, False]
    assert keys["loader.source.dynamicTopic"] == r"shop\..*,bank"
    rules = r"shop.orders:id^customer,.*\..*:$pk$,bank.x"
    assert keys["loader.source.partitionHash"] == rules
    assert keys["consumer.source.address"] == "db1:3306,db2:3306"
    assert keys["consumer.offset"] == "mysql-bin.000003:154"
    assert keys["loader.source.canalCompat"] == "true"
    assert "canal.mq.partitionHash" not in warned(made)


def test_canals_topics_have_no_dots_where_it_has_dynamic_ones() -> None:
    """It replaces them as it sends, also in names that its file spells out."""
    made = of_canal(
        canal__mq__topic="rest.v1",
        canal__mq__dynamicTopic=r"orders.v1:shop.orders;a:shop\..*,bank.x",
    )
    keys = made.finished()
    assert keys["loader.source.topic"] == "rest_v1"
    assert keys["loader.source.dynamicTopic"] == r"orders_v1:shop.orders,a:shop\..*,bank.x"
    notes = {each.key: each.sentence for each in made.found.of(Severity.NOTE)}
    assert "rest.v1 becomes rest_v1" in notes["canal.mq.topic"]
    assert "orders.v1 becomes orders_v1" in notes["canal.mq.dynamicTopic"]
    plain = of_canal(canal__mq__topic="rest.v1")
    assert plain.finished()["loader.source.topic"] == "rest.v1"
    assert "canal.mq.topic" not in said(plain)


def test_a_bracket_in_a_class_of_characters_joins_no_regular_expressions() -> None:
    made = of_canal(canal__instance__filter__black__regex=r"db\.a[(]b,db\.c")
    assert taken(made, "db.a(b", "db.c", "db.d") == {"db.d"}


def test_canals_tls_is_carried_over_and_nothing_else_of_its_servers_is_dropped() -> None:
    made = of_canal(
        canal__instance__master__sslMode="VERIFY_CA",
        canal__instance__master__brandNew="1",
        canal__instance__standby__brandNew="1",
        canal__instance__standby__position="4",
    )
    assert taken(made, "shop.a")
    assert made.keys["consumer.source.sslMode"] == "VERIFY_CA"
    assert {"canal.instance.master.brandNew", "canal.instance.standby.brandNew"} <= warned(made)
    assert "canal.instance.standby.position" in said(made)
    assert "canal.instance.master.position" not in said(made)


def test_canal_without_a_place_does_not_begin_at_the_end() -> None:
    made = of_canal(canal__instance__master__journal__name="")
    assert "consumer.offset" not in made.keys
    assert "canal.instance.master.position" in warned(made)
    time = of_canal(
        canal__instance__master__journal__name="",
        canal__instance__master__timestamp="1714528800000",
    )
    assert time.keys["consumer.offset"] == "2024-05-01T02:00:00Z"


@pytest.mark.parametrize("text", ["1714528800000000", "9" * 30, "\u00b2", "0"])
def test_canal_with_a_time_that_no_calendar_has_does_not_begin_at_the_end(text: str) -> None:
    made = of_canal(
        canal__instance__master__journal__name="", canal__instance__master__timestamp=text
    )
    assert "consumer.offset" not in made.keys
    assert "canal.instance.master.position" in warned(made)


@pytest.mark.parametrize("mode", ["tcp", "rocketMQ"])
def test_canal_for_other_readers_is_an_error(mode: str) -> None:
    assert "canal.serverMode" in errors(of_canal(canal__serverMode=mode))


def test_a_placeholder_of_another_tool_is_an_error() -> None:
    made = of_canal(canal__instance__dbUsername="${USER:root}")
    assert "placeholder" in errors(made)["canal.instance.dbUsername"]
    assert "consumer.source.username" not in made.keys


def test_debeziums_tables_need_schema_and_name_to_fit() -> None:
    made = of_debezium(
        database__include__list="shop,bank_[0-9]+",
        table__exclude__list=r"shop\.tmp.*",
    )
    regex = re.compile(made.keys["consumer.source.filter"])
    tables = ("shop.orders", "shop.tmp1", "bank_7.acc", "bank.acc")
    assert [bool(regex.fullmatch(table)) for table in tables] == [True, False, True, False]
    both = of_debezium(database__include__list="shop", table__include__list=r".*\.orders")
    regex = re.compile(both.keys["consumer.source.filter"])
    assert regex.fullmatch("shop.orders")
    assert not regex.fullmatch("bank.orders")
    assert not regex.fullmatch("shop.items")


@pytest.mark.parametrize("words", ["^shop$", r"\Ashop\z", "^shop|^sh.p$", "SHOP"])
def test_debeziums_schemas_may_have_anchors(words: str) -> None:
    tables = ("shop.orders", "bank.shop", "shops.orders")
    assert taken(of_debezium(database__include__list=words), *tables) == {"shop.orders"}
    left = taken(of_debezium(database__exclude__list=words), *tables)
    assert left == {"bank.shop", "shops.orders"}
    both = of_debezium(database__include__list=words, table__include__list=r".*\.orders")
    assert taken(both, *tables) == {"shop.orders"}


@pytest.mark.parametrize("words", ["(?!secret$).*", "(^shop$)"])
@pytest.mark.parametrize("which", ["include", "exclude"])
def test_debeziums_schemas_that_would_fit_others_are_an_error(words: str, which: str) -> None:
    made = of_debezium(**{f"database__{which}__list": words})
    assert f"database.{which}.list" in errors(made)


def test_debeziums_topics_keep_their_names_where_tables_are_named() -> None:
    made = of_debezium(table__include__list=r"shop.orders,shop\.items")
    assert made.keys["loader.source.dynamicTopic"] == (
        r"dbserver1.shop.orders:shop\.orders,dbserver1.shop.items:shop\.items"
    )
    assert "topic.prefix" in warned(of_debezium(table__include__list=r"shop\..*"))


def test_debeziums_masks_and_left_out_columns_never_get_lost() -> None:
    odd = {
        "column__exclude__list": "shop.person.pin",
        "column__mask__with__8__chars": "shop.person.mail",
        "column__mask__hash__v2__SHA-256__with__salt__x": "shop.person.card",
        "transforms": "route",
        "snapshot__select__statement__overrides": "shop.orders",
        "database__ssl__keystore": "/k.jks",
    }
    made = of_debezium(**odd)
    written = " ".join(f"{key}={value}" for key, value in made.finished().items())
    for key in spelled(odd):
        assert key in errors(made) or "mapper[0]" in written, key
    assert {"transforms", "database.ssl.keystore"} <= errors(made).keys()


@pytest.mark.parametrize("column", ["shop.person.pin$", r"^shop\.person\.pin", "^shop.person.pin$"])
def test_debeziums_names_may_have_anchors(column: str) -> None:
    table = column.replace(".pin", "").removesuffix("\\")
    made = of_debezium(
        column__exclude__list=column,
        table__include__list=table,
        message__key__columns=f"{table}:id",
    )
    keys = made.finished()
    assert errors(made) == {}
    assert keys["mapper[0].ignore"] == "pin"
    assert keys["mapper[0].table"] == "person,person"
    assert keys["loader.source.dynamicTopic"] == r"dbserver1.shop.person:shop\.person"
    assert keys["loader.source.partitionKey.shop.person"] == "id"


def test_what_debezium_asks_of_kafka_is_not_dropped_without_a_word() -> None:
    made = of_debezium(
        topic__creation__default__partitions="3",
        topic__creation__default__replication__factor="2",
        topic__creation__default__cleanup__policy="compact",
        exactly__once__support="required",
    )
    assert made.keys["loader.source.createTopic"] == "3:2"
    assert {"topic.creation.default.cleanup.policy", "exactly.once.support"} <= warned(made)
    assert "topic.creation.default.partitions" not in said(made)
    assert "exactly.once.support" not in said(of_debezium(exactly__once__support="requested"))


def test_an_escaped_dollar_of_debezium_is_no_anchor() -> None:
    assert "column.exclude.list" in errors(of_debezium(column__exclude__list=r"shop.person.pin\$"))


def test_debeziums_old_names_and_its_server_are_understood() -> None:
    old = debezium.from_debezium(
        debezium.connector_of(
            {
                **{key: value for key, value in DEBEZIUM.items() if key != "topic.prefix"},
                "database.server.name": "dbserver1",
                "table.whitelist": "shop.orders",
            }
        )
    )
    assert old.keys["loader.source.topic"] == "dbserver1"
    assert old.keys["consumer.source.filter"] == "(?:shop.orders)"
    server = debezium.connector_of(
        {
            **{f"debezium.source.{key}": value for key, value in DEBEZIUM.items()},
            "debezium.sink.kafka.producer.bootstrap.servers": "k9:9092",
            "quarkus.http.port": "8080",
        }
    )
    assert debezium.from_debezium(server).keys["loader.source.servers"] == "k9:9092"


def of_server(**more: str) -> Conversion:
    settings = {f"debezium.source.{key}": value for key, value in DEBEZIUM.items()}
    return debezium.from_debezium(
        debezium.connector_of({**settings, "quarkus.http.port": "8080", **spelled(more)})
    )


def test_debezium_servers_own_settings_are_not_dropped_without_a_word() -> None:
    made = of_server(
        debezium__transforms="keep",
        debezium__transforms__keep__type="io.debezium.transforms.Filter",
        debezium__predicates="p",
        debezium__sink__type="kinesis",
        debezium__format__value="json",
        debezium__brand__new="1",
    )
    assert errors(made).keys() == {
        "debezium.transforms",
        "debezium.transforms.keep.type",
        "debezium.predicates",
        "debezium.sink.type",
    }
    assert "debezium.brand.new" in warned(made)
    assert "debezium.format.value" in said(made)
    assert "quarkus.http.port" not in said(made)


@pytest.mark.parametrize(("before", "convert"), [("debezium.", of_server), ("", of_debezium)])
def test_what_takes_debeziums_envelope_off_needs_no_counterpart(
    before: str, convert: Callable[..., Conversion]
) -> None:
    unwrap = {
        f"{before}transforms": "unwrap",
        f"{before}transforms.unwrap.type": debezium.UNWRAP,
        f"{before}transforms.unwrap.add.fields": "op",
    }
    made = convert(**unwrap)
    assert errors(made) == {} and unwrap.keys() <= said(made)
    assert f"{before}transforms.unwrap.add.fields" in warned(made)
    routed = {f"{before}transforms.unwrap.route.by.field": "region"}
    assert errors(convert(**{**unwrap, **routed})).keys() == routed.keys()
    # With another one the list of both is an error, as rows would differ.
    both = {f"{before}transforms": "unwrap,keep", f"{before}transforms.keep.type": "org.x.Filter"}
    assert errors(convert(**{**unwrap, **both})).keys() == both.keys()


def test_debezium_servers_options_of_kafka_are_carried_over() -> None:
    made = of_server(
        debezium__sink__type="kafka",
        debezium__sink__kafka__producer__bootstrap__servers="k9:9092",
        debezium__sink__kafka__producer__security__protocol="SSL",
        debezium__sink__kafka__producer__key__serializer="org.x.StringSerializer",
    )
    assert errors(made) == {}
    assert made.keys["loader.source.servers"] == "k9:9092"
    assert made.keys["kafka.security.protocol"] == "SSL"
    assert not [key for key in made.keys if "serializer" in key]


JAVAS = {
    "acks": "1",
    "batch.size": "32768",
    "buffer.memory": "67108864",
    "client.id": "c",
    "compression.gzip.level": "4",
    "compression.type": "gzip",
    "delivery.timeout.ms": "5000",
    "enable.idempotence": "false",
    "key.serializer": "org.x.StringSerializer",
    "linger.ms": "10",
    "max.block.ms": "1000",
    "max.in.flight.requests.per.connection": "9",
    "max.request.size": "2000000",
    "metadata.max.idle.ms": "300000",
    "metric.reporters": "a.B",
    "metrics.num.samples": "3",
    "partitioner.availability.timeout.ms": "5",
    "receive.buffer.bytes": "-1",
    "request.timeout.ms": "20000",
    "retries": "3",
    "send.buffer.bytes": "131072",
    "socket.connection.setup.timeout.max.ms": "20000",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.truststore.type": "PEM",
    "transactional.id": "x",
}


@pytest.mark.parametrize(
    ("prefix", "convert"),
    [
        ("debezium.sink.kafka.producer.", of_server),
        ("producer.override.", of_debezium),
        ("kafka.", of_maxwell),
        ("kafka.", of_canal),
    ],
)
def test_of_javas_options_come_only_those_that_the_producer_knows(
    prefix: str, convert: Callable[..., Conversion]
) -> None:
    made = convert(**{prefix + name: value for name, value in JAVAS.items()})
    task = inspect_text(task_text(made, made.tool), {}, sources=lambda _: None).task
    assert isinstance(task, FetchTask)
    Producer(producer_options(task.publish))  # raises for a name that it does not know
    assert task.publish.kafka_options["message.max.bytes"] == "2000000"
    assert task.publish.queue_bytes == 64 << 20
    assert task.publish.kafka_options["linger.ms"] == "10"
    # by an empty value Java does not look at host names
    assert task.publish.kafka_options["ssl.endpoint.identification.algorithm"] == "none"
    assert not warned(made) & {f"{prefix}{name}" for name in JAVAS}
    words = {"max.request.size": str(2**31 - 1), "batch.size": "0", "connections.max.idle.ms": "-1"}
    made = convert(**{prefix + name: value for name, value in words.items()})
    task = inspect_text(task_text(made, made.tool), {}, sources=lambda _: None).task
    assert isinstance(task, FetchTask)
    Producer(producer_options(task.publish))  # raises for a value that it does not take
    assert task.publish.kafka_options["message.max.bytes"] == "1000000000"
    for name in ("interceptor.classes", "sasl.login.class"):
        assert len(errors(convert(**{f"{prefix}{name}": "a.B"}))) == 1


def test_another_connector_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not read MySQL or MariaDB"):
        of_debezium(connector__class="io.debezium.connector.postgresql.PostgresConnector")


@pytest.mark.parametrize(
    ("mode", "ours", "offset"),
    [
        ("initial", "initial", "latest"),
        ("initial_only", "only", "latest"),
        ("no_data", "never", ""),
    ],
)
def test_debeziums_snapshots_are_ours(mode: str, ours: str, offset: str) -> None:
    made = of_debezium(snapshot__mode=mode)
    assert made.keys["consumer.snapshot"] == ours
    assert made.keys.get("consumer.offset", "") == offset


@pytest.mark.parametrize(
    ("rules", "read"),
    [
        ("exclude: *.*, include: shop.*", {"shop.a", "shop.b"}),
        (r"exclude: shop.*, include: shop.a, include: /bank_\d+/.acc", {"shop.a", "bank_1.acc", "x.y"}),
        ("include: shop.*, exclude: shop.a", {"shop.b", "bank_1.acc", "x.y"}),
        ("blacklist: shop.*", {"bank_1.acc", "x.y"}),
        ("blacklist: shop.a, include: shop.*", {"shop.b", "bank_1.acc", "x.y"}),
        ("exclude: *.*, include: shop.*, blacklist: shop.a, blacklist: x.y", {"shop.b"}),
        ("exclude: 'shop'.\"a\", exclude: `x`.*", {"shop.b", "bank_1.acc"}),
    ],
)  # fmt: skip
def test_maxwells_rules_count_in_their_order(rules: str, read: set[str]) -> None:
    made = of_maxwell(filter=rules)
    assert errors(made) == {}
    assert taken(made, "shop.a", "shop.b", "bank_1.acc", "x.y") == read


@pytest.mark.parametrize(
    ("rules", "read"),
    [
        ("exclude: shop./^TMP/", {"shop.tmp_x", "shop.orders", "Shop.orders"}),
        ("exclude: *.*, include: Shop.*", {"Shop.orders"}),
        ("exclude: *.*, include: shop./^(?i:tmp)/", {"shop.tmp_x", "shop.TMP_x"}),
    ],
)
def test_maxwells_names_are_of_one_case(rules: str, read: set[str]) -> None:
    made = of_maxwell(filter=rules)
    assert errors(made) == {}
    assert taken(made, "shop.tmp_x", "shop.TMP_x", "shop.orders", "Shop.orders") == read


@pytest.mark.parametrize(
    "key",
    ["exclude_dbs", "include_tables", "exclude_tables", "blacklist_tables", "exclude_columns"],
)
def test_what_older_maxwells_leave_out_is_an_error(key: str) -> None:
    assert key in errors(of_maxwell(**{key: "secret"}))


@pytest.mark.parametrize("name", ["zookeeper", ".."])
def test_a_name_that_no_task_can_have_is_replaced_with_a_warning(name: str) -> None:
    made = of_maxwell(client_id=name)
    assert made.keys["taskId"] == "maxwell"
    assert any(each.key == "taskId" for each in made.found.of(Severity.WARNING))


@pytest.mark.parametrize(("skipped", "truncates"), [(None, "false"), ("none", "true")])
def test_debezium_leaves_out_truncates_unless_it_is_told_otherwise(
    skipped: str | None, truncates: str
) -> None:
    more = {} if skipped is None else {"skipped__operations": skipped}
    made = of_debezium(**more)
    assert made.keys["loader.source.truncate"] == truncates
    noted = {each.key for each in made.found.of(Severity.NOTE)}
    assert ("skipped.operations" in noted) is (skipped is None)


@pytest.mark.parametrize(
    ("made", "operations"),
    [
        (of_debezium(skipped__operations="t,d"), "DELETE"),
        (of_debezium(skipped__operations="u, c"), "INSERT,UPDATE"),
        (of_debezium(skipped__operations="none"), None),
        (of_canal(canal__instance__filter__dml__delete="true"), "DELETE"),
        (
            of_canal(
                canal__instance__filter__dml__update="true",
                canal__instance__filter__dml__insert="true",
                canal__instance__filter__dml__delete="false",
            ),
            "INSERT,UPDATE",
        ),
    ],
)
def test_operations_that_are_left_out_stay_so(made: Conversion, operations: str | None) -> None:
    assert errors(made) == {}
    assert made.keys.get("consumer.skippedOperations") == operations
    assert inspect_text(task_text(made, made.tool), {}, sources=lambda _: None).task is not None


def test_a_task_without_any_operation_is_an_error() -> None:
    assert errors(of_debezium(skipped__operations="c,u,d,t")).keys() == {"skipped.operations"}
    names = [f"canal.instance.filter.dml.{name}" for name in ("insert", "update", "delete")]
    made = of_canal(**{name.replace(".", "__"): "true" for name in names})
    assert errors(made).keys() == set(names)


@pytest.mark.parametrize(
    ("tables", "is_error"),
    [
        ("shop.a", False),
        ("shop.a,shop.b", False),
        ("shop.a,shop.c", True),
        ("shop.*", True),
        ("", True),
    ],
)
def test_a_list_of_columns_must_be_one_of_each_table(tables: str, is_error: bool) -> None:
    made = of_debezium(table__include__list=tables, column__include__list="shop.a.id,shop.b.id")
    assert ("column.include.list" in errors(made)) is is_error


@pytest.mark.parametrize(
    ("rules", "read"),
    [
        ("exclude: shop./secret/, exclude: *./^tmp_/", {"orders", "old_tmp_x", "border_x"}),
        ("exclude: *.*, include: shop./^order/", {"orders"}),
        ("exclude: *.*, include: /^sh/./x$/", {"tmp_x", "old_tmp_x", "border_x"}),
        ("exclude: *.*, include: /^hop/.*, include: *./^order$/", set()),
        ("exclude: *.*, include: *./^tmp|^my|data$/", {"tmp_x", "my_secret", "secret_data"}),
        ("exclude: *.*, include: /ho/./^(orders|tmp_x)$/", {"orders", "tmp_x"}),
        ("exclude: *.*, include: *./^(?!.*_)/", {"orders"}),
        ("exclude: *.*, include: shop.'tmp_[x-z]'", {"tmp_x"}),
        ("exclude: *.*, include: shop.`orders|_x`", {"orders", "tmp_x", "old_tmp_x", "border_x"}),
    ],
)
def test_maxwells_regular_expressions_fit_a_part_of_a_name(rules: str, read: set[str]) -> None:
    made = of_maxwell(filter=rules)
    assert errors(made) == {}
    names = ("orders", "border_x", "tmp_x", "old_tmp_x", "my_secret", "secret_data")
    found = taken(made, *(f"shop.{name}" for name in names))
    assert found == {f"shop.{name}" for name in read}


@pytest.mark.parametrize(
    "regex",
    [
        "*./(^|_)tmp/",
        "*./a^b/",
        "*./a$b/",
        r"*./a\Zb/",
        "*./(?!tmp$)x/",
        "/(?!.*pub)/.*",
        "*./^a(b/",
    ],
)
def test_a_regular_expression_that_would_fit_other_tables_is_an_error(regex: str) -> None:
    assert "filter" in errors(of_maxwell(filter=f"exclude: {regex}"))


def test_a_blacklist_that_cannot_be_carried_over_is_an_error() -> None:
    made = of_maxwell(filter="blacklist: shop./^a(b/")
    assert "filter" in errors(made)
    assert "consumer.source.blackFilter" not in made.keys


@pytest.mark.parametrize(
    "rules", ["exclude: shop.o.state = x", "hide: shop.*", "exclude: shop.*; include: x.y"]
)
def test_a_rule_of_maxwell_that_cannot_be_carried_over_is_an_error(rules: str) -> None:
    assert "filter" in errors(of_maxwell(filter=rules))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("producer", "kinesis"),
        ("custom_producer.factory", "org.x.Factory"),
        ("javascript", "f.js"),
        ("encrypt", "data"),
        ("output_naming_strategy", "underscore_to_camelcase"),
        ("kafka_topic", "ns_%{database}"),
    ],
)
def test_what_would_change_rows_is_an_error_with_maxwell(key: str, value: str) -> None:
    assert key in errors(of_maxwell(**{key: value}))


def test_maxwells_topics_after_tables_are_named_in_lower_case_with_a_warning() -> None:
    made = of_maxwell(kafka_topic="%{database}_%{table}")
    assert made.keys["loader.source.dynamicTopic"] == r".*\..*"
    assert "kafka_topic" in warned(made)
    assert "kafka_topic" not in said(of_maxwell())


def test_maxwell_reads_where_it_is_told_to() -> None:
    made = of_maxwell(
        replication_host="db9", replication_port="3307", replication_user="r", dead_letter_topic="d"
    )
    assert made.keys["consumer.source.address"] == "db9:3307"
    assert made.keys["consumer.source.username"] == "r"
    assert made.keys["loader.deadletterTopic"] == "d"
    assert "consumer.source.password" not in made.keys


def test_a_comma_in_brackets_stays_in_its_regular_expression() -> None:
    made = of_debezium(table__include__list=r"shop\.t{1,3}")
    assert REGEXES.read(made.keys["consumer.source.filter"]) == (r"(?:shop\.t{1,3})",)


@pytest.mark.parametrize(
    "table",
    [
        *("(?<x>a)", "[a-z&&[^t]].*", "[a-c[x-z]].*", r"\p{L}+", r"\Qa\E", r"\h", "(?i)a"),
        *(r"(a)\1", "a{99999999999}", "a(b"),
    ],
)
def test_a_regular_expression_that_ours_cannot_hold_is_an_error(table: str) -> None:
    made = of_debezium(table__include__list=f"shop\\.{table}")
    assert "not carried over" in errors(made)["table.include.list"]
    assert "consumer.source.filter" not in made.keys
    black = of_canal(canal__instance__filter__black__regex=f"shop\\.{table}")
    assert "canal.instance.filter.black.regex" in errors(black)
    assert "filter" in errors(of_maxwell(filter=f"include: shop./^{table}/"))


@pytest.mark.parametrize("table", [r"[a\[b]++", r"\[a\]", "[]&a]", "(?>a|b)", "(?i:a)"])
def test_a_regular_expression_that_is_the_same_here_is_taken(table: str) -> None:
    made = of_debezium(table__include__list=f"shop\\.{table}")
    assert errors(made) == {}


def test_regular_expressions_are_split_outside_of_brackets() -> None:
    assert split_regexes(r"a{1,2},[,]b, c\,d,(x,y)") == ["a{1,2}", "[,]b", "c,d", "(x,y)"]
    assert split_regexes(r"a[(]b,c,[^]\]),]d,\[e\\,f") == [
        *("a[(]b", "c", r"[^]\]),]d", r"\[e\\", "f")
    ]
    assert literal_table(r"shop\.orders") == literal_table("shop.orders") == ("shop", "orders")
    assert literal_table(r"shop\..*") is literal_table("a.b.c") is None

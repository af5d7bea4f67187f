import re

import pytest

from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.task import KEYS, find_key, nearest_key

# Every key of porter's tasks, as its users write it.
PORTERS = """
taskId nodeId status positionCheckInterval alarmPositionCount receiver[0].realName receiver[12].email receiver[0].phone restartRetries
restartIncreaseBySecond localTask
consumer.consumerName consumer.converter consumer.includes consumer.excludes consumer.offset consumer.emptyFetchThreshold
consumer.emptyFetchNoticeSpan consumer.eventProcessor.className consumer.eventProcessor.content consumer.metaSource.sourceName
consumer.metaSource.url consumer.source.sourceType consumer.source.clientType consumer.source.sourceName
consumer.source.servers consumer.source.topics consumer.source.group consumer.source.pollTimeOut consumer.source.oncePollSize
consumer.source.onceCommitInterval consumer.source.firstConsumeFrom consumer.source.autoCommit consumer.source.partition
consumer.source.allowOffsetReset
consumer.source.address consumer.source.username consumer.source.password consumer.source.database consumer.source.filter
consumer.source.slaveId consumer.source.parallel consumer.source.canalId consumer.source.canalName consumer.source.sourcingType
consumer.source.tasksMax consumer.source.table.0.table consumer.source.table.1.incrementColumn consumer.source.table.1.incrementColumnSpan
consumer.source.table.1.timestampColumn consumer.source.table.1.timestampColumnCast consumer.source.table.1.timestampSpan
consumer.source.url consumer.source.userName consumer.source.dbType consumer.source.maxPoolSize
loader.loaderName loader.insertOnUpdateError loader.source.sourceName loader.source.sourceType loader.source.clientType
loader.source.url loader.source.userName loader.source.password loader.source.driverClassName loader.source.dbType loader.source.maxWait
loader.source.connectionErrorRetryAttempts loader.source.validationQueryTimeout loader.source.testOnBorrow loader.source.testOnReturn
loader.source.makePrimaryKeyWhenNo loader.source.retries loader.source.minPoolSize loader.source.maxPoolSize loader.source.initialPoolSize
loader.source.servers loader.source.topic loader.source.oggJson loader.source.transaction loader.source.group
loader.source.partitionKey.SMSSDB.T_SMS loader.source.workerCount
mapper[0].schema mapper[0].table mapper[0].column.A mapper[10].updateDate mapper[0].ignoreTargetCase mapper[0].forceMatched mapper[0].auto
porter.id porter.source.76DCDB.url
kafka.linger.ms consumer.source.kafka.x loader.source.kafka.x spark.master consumer.source.spark.x loader.source.spark.x
"""


@pytest.mark.parametrize("written", PORTERS.split())
def test_porters_keys_are_known(written: str) -> None:
    assert find_key(written) is not None


@pytest.mark.parametrize(
    "written",
    [
        "taskid",
        "mapper.schema",
        "mapper[x].schema",
        "mapper[0].column.",
        "consumer.source",
        "kafka.",
        "",
    ],
)
def test_others_are_not(written: str) -> None:
    assert find_key(written) is None


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_each_row_is_well_formed(key: Key) -> None:
    if key.default:
        key.value_type.read(key.default)
    assert key.meaning.endswith(".")
    assert not (key.dead and key.answer)
    assert "|" not in key.meaning + key.porter + key.default


def test_no_pattern_takes_the_keys_of_another() -> None:
    for name in KEYS:
        written = re.sub(r"<[A-Z]+>|\*", "X", name.replace("[i]", "[7]"))
        found = find_key(written)
        assert found is not None and found.name == name


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("consumer.source.topic", "consumer.source.topics"),
        ("consumer.source.UserName", "consumer.source.userName"),
        ("TASKID", "taskId"),
        ("mapper[3].forceMatch", "mapper[i].forceMatched"),
        ("something.else.entirely", None),
        ("", None),
    ],
)
def test_the_nearest_key(written: str, near: str | None) -> None:
    assert nearest_key(written) == near


def test_each_route_has_keys_of_its_own() -> None:
    assert {key.route for key in KEYS.values()} == {
        Route.ANY,
        Route.FETCH,
        Route.LOAD,
        Route.FROM_KAFKA,
        Route.TO_KAFKA,
        Route.INTO_KAFKA,
        Route.BUILT_IN,
        Route.SOURCE,
    }

import pytest

from cdcbus.consumer.spark import is_cluster


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,3]"])
def test_local_masters_have_no_executors(master: str) -> None:
    assert not is_cluster(master)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443", "local-cluster[2,1,1024]"])
def test_all_other_masters_have(master: str) -> None:
    assert is_cluster(master)

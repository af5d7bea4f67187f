import pickle

import pytest

from cdcbus.plugins import errors
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.policy import POLICIES, UNKNOWN, Action, policy_of


def tree(root: type[CdcError] = CdcError) -> set[type[CdcError]]:
    return {root}.union(*(tree(child) for child in root.__subclasses__() if child.__module__ == errors.__name__))


def test_each_class_of_the_tree_has_its_own_entry() -> None:
    assert set(POLICIES) == tree()


@pytest.mark.parametrize("error", sorted(tree(), key=lambda error: error.__name__))
def test_what_is_unavailable_is_tried_again_and_all_else_stops(error: type[CdcError]) -> None:
    retried = error.__name__.endswith("Unavailable") or error is errors.PositionConflict
    assert policy_of(error("x")).action is (Action.RETRY if retried else Action.STOP)


def test_a_class_that_others_add_goes_by_its_nearest_ancestor() -> None:
    class LockedOut(errors.TargetUnavailable):
        pass

    assert policy_of(LockedOut()) is POLICIES[errors.TargetUnavailable]


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), MemoryError()])
def test_the_unknown_stops(error: BaseException) -> None:
    assert policy_of(error) is UNKNOWN
    assert UNKNOWN.action is Action.STOP


@pytest.mark.parametrize("policy", [*POLICIES.values(), UNKNOWN])
def test_advice_is_a_sentence_and_survives_pickling(policy: object) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy
    advice = getattr(policy, "advice")  # noqa: B009
    assert advice[0].isupper() and advice.endswith(".")

"""The algebra of shares: in any order, processes admit the limit, and at most a chunk more for each but the first."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.limits.windows import Answer, Share, chunk_of


class Common:
    """The common count, as the database keeps it."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total


def request(share: Share, common: Common) -> bool:
    answer = share.take()
    while answer is Answer.ASK:
        share.told(common.add(share.asking()))
        answer = share.take()
    return answer is Answer.TAKEN


@given(limit=st.integers(1, 400), processes=st.integers(1, 5), order=st.data())
def test_share__any_order_of_any_processes__limit_and_a_chunk_for_each_other_process(
    limit: int, processes: int, order: st.DataObject
) -> None:
    common = Common()
    shares = [Share(limit) for _ in range(processes)]
    turns = order.draw(st.lists(st.integers(0, processes - 1), max_size=limit + 100))
    # and then everybody asks until nobody gets any more
    turns += list(range(processes)) * (limit + chunk_of(limit) + 1)
    admitted = sum(request(shares[turn], common) for turn in turns)
    surplus = (processes - 1) * chunk_of(limit) if chunk_of(limit) > 1 else 0
    assert limit <= admitted <= limit + surplus


@given(limit=st.integers(1, 10_000))
def test_share__one_process__admits_exactly_the_limit(limit: int) -> None:
    share, common = Share(limit), Common()
    assert sum(request(share, common) for _ in range(limit + 50)) == limit
    assert share.is_used_up


@given(limit=st.integers(1, 19), processes=st.integers(1, 5))
def test_share__small_limit__is_exact_over_processes(limit: int, processes: int) -> None:
    shares, common = [Share(limit) for _ in range(processes)], Common()
    assert sum(request(share, common) for share in shares for _ in range(limit + 5)) == limit


@given(limit=st.integers(40, 10_000))
def test_share__caller_below_one_chunk__costs_no_question(limit: int) -> None:
    share = Share(limit)
    assert {share.take() for _ in range(chunk_of(limit))} == {Answer.TAKEN}
    assert share.take() is Answer.ASK


@given(limit=st.integers(40, 2_000), lost=st.integers(0, 100))
def test_share__lost_process__takes_at_most_a_chunk_with_it(limit: int, lost: int) -> None:
    common = Common()
    gone, left = Share(limit), Share(limit)
    used = sum(request(gone, common) for _ in range(min(lost, limit)))
    admitted = sum(request(left, common) for _ in range(limit + chunk_of(limit) + 1))
    assert admitted + used >= limit - chunk_of(limit)


def test_share__count_out_of_reach__goes_on_and_tells_later() -> None:
    share, common = Share(100), Common()
    for _ in range(chunk_of(100)):
        share.take()
    assert share.take() is Answer.ASK
    share.asking()
    share.grant_unasked()
    assert share.take() is Answer.TAKEN
    while share.take() is Answer.TAKEN:
        pass
    share.told(common.add(share.asking()))
    assert common.total >= chunk_of(100)

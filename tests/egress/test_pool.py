"""Names and their made addresses."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from ags.egress.pool import FIRST, LAST, NETWORK, Pool


def small(size: int, addresses: int) -> Pool:
    return Pool(size, FIRST, FIRST + addresses - 1)


def test_a_name_keeps_its_address_and_the_address_leads_back() -> None:
    pool = Pool()
    first, second = pool.address("api.example"), pool.address("www.example")
    assert first is not None and second is not None and first != second
    assert pool.address("api.example") == first
    assert (pool.name(first), pool.name(second)) == ("api.example", "www.example")


def test_every_address_is_in_the_fences_range_and_none_is_the_gateways() -> None:
    pool = small(300, 300)
    made = [pool.address(f"n{number}.example") for number in range(300)]
    assert len(set(made)) == 300
    assert all(IPv4Address(each or "") in NETWORK for each in made)
    assert "198.18.0.1" not in made
    assert IPv4Address("198.18.0.1") < FIRST and LAST in NETWORK


def test_an_address_that_was_never_made_is_nobodys() -> None:
    pool = Pool()
    made = pool.address("api.example")
    assert made is not None
    assert pool.name("198.19.0.9") is None
    assert pool.name("198.18.0.1") is None
    assert pool.name("8.8.8.8") is None
    assert pool.name(made) == "api.example"


def test_the_name_that_was_not_used_for_longest_makes_room() -> None:
    pool = small(2, 10)
    old, recent = pool.address("old.example"), pool.address("recent.example")
    assert old and recent
    pool.address("new.example")
    assert pool.name(old) is None
    assert pool.name(recent) == "recent.example"
    assert pool.count == 2


@pytest.mark.parametrize("how", ["asked for", "dialled", "connection ended"])
def test_use_keeps_a_name_in(how: str) -> None:
    pool = small(2, 10)
    first, second = pool.address("first.example"), pool.address("second.example")
    assert first and second
    if how == "asked for":
        pool.address("first.example")
    elif how == "dialled":
        pool.name(first)
    else:
        with pool.pinned(first):
            pool.address("second.example")
    pool.address("third.example")
    assert pool.name(second) is None
    assert pool.name(first) == "first.example"


def test_an_address_with_an_open_connection_stays_however_old() -> None:
    pool = small(2, 10)
    old = pool.address("old.example")
    assert old
    with pool.pinned(old) as name, pool.pinned(old):
        assert name == "old.example"
        for number in range(20):
            assert pool.address(f"n{number}.example")
        assert pool.name(old) == "old.example"
    for number in range(2):
        pool.address(f"m{number}.example")
    assert pool.name(old) is None


def test_a_pin_ends_only_with_its_last_connection() -> None:
    pool = small(1, 10)
    address = pool.address("one.example")
    assert address
    with pool.pinned(address):
        with pool.pinned(address):
            pass
        assert pool.address("two.example") is None
    assert pool.address("two.example") is not None


def test_with_every_address_in_use_there_is_none_for_a_new_name() -> None:
    pool = small(2, 10)
    one, two = pool.address("one.example"), pool.address("two.example")
    assert one and two
    with pool.pinned(one):
        with pool.pinned(two):
            assert pool.address("three.example") is None
            assert pool.address("one.example") == one
        assert pool.address("three.example") is not None
    assert pool.name(one) == "one.example"


def test_nobody_is_pinned_by_an_address_of_nobody() -> None:
    pool = small(1, 10)
    with pool.pinned("198.18.9.9") as name:
        assert name is None
        assert pool.address("one.example")
        assert pool.address("two.example")


def test_an_address_goes_to_another_name_only_after_all_others() -> None:
    """Who kept an old address is refused, and does not reach somebody else."""
    pool = small(2, 10)
    made = [pool.address(f"n{number}.example") for number in range(10)]
    assert len(set(made)) == 10
    assert made[0] and pool.name(made[0]) is None
    assert pool.address("next.example") == made[0]


def test_going_round_passes_over_addresses_in_use() -> None:
    pool = small(2, 3)
    kept = pool.address("kept.example")
    assert kept
    with pool.pinned(kept):
        made = [pool.address(f"n{number}.example") for number in range(9)]
    assert kept not in made
    assert len(set(made)) == 2


def test_names_are_bounded_whatever_is_asked() -> None:
    pool = Pool(100)
    for number in range(1000):
        pool.address(f"n{number}.example")
    assert pool.count == 100
    assert len(pool._names) == 100


@pytest.mark.parametrize(
    ("size", "first", "last"),
    [(0, FIRST, LAST), (5, FIRST, FIRST + 3), (1, IPv4Address("198.17.0.1"), LAST)],
)
def test_a_pool_that_cannot_be_is_an_error(
    size: int, first: IPv4Address, last: IPv4Address
) -> None:
    with pytest.raises(ValueError, match="no pool of"):
        Pool(size, first, last)

"""A credential belongs to the issuer and the backend that it came from, and to no other."""

import pytest

from conftest import SIGN_IN_NEEDED


@pytest.fixture(params=["file", "keyring"])
def houses(request, simulate, user, passphrase):
    """Two services, and a user of each with one home, one store and one account name, who is signed in at the first."""
    first, second = simulate(), simulate()
    at_first = user(first, CHAPPIE_CREDENTIAL_STORE=request.param, **passphrase("a passphrase")).sign_in()
    return first, second, at_first, at_first.having(**second.settings)


def is_signed_in(user):
    return user.run("status", "--json", status=None).events[0]["signed_in"]


def test_another_service_is_sent_nothing_of_a_sign_in(houses):
    first, second, at_first, at_second = houses
    first_seen = len(first.log)
    for transport in ("sse", "websocket"):
        at_second.ask("reply: never", transport=transport, status=SIGN_IN_NEEDED, says=second.issuer)
    for words in (["models"], ["usage"], ["auth", "export", "never"]):
        at_second.run(*words, status=SIGN_IN_NEEDED)
    assert not is_signed_in(at_second) and is_signed_in(at_first)
    assert at_second.run("logout", "--json").events == [{"signed_out": True, "revoked": False, "was_signed_in": False}]
    assert second.log == [] and len(first.log) == first_seen, (first.log[first_seen:], second.log)
    assert at_first.ask("reply: still here").output == "still here\n"


def test_a_sign_in_elsewhere_leaves_the_first_alone(houses):
    first, second, at_first, at_second = houses
    before = len(first.log)
    at_second.sign_in()
    assert at_second.ask("reply: second").output == "second\n"
    assert at_second.run("logout", "--json").events == [{"signed_out": True, "revoked": True, "was_signed_in": True}]
    assert len(first.log) == before, first.log[before:]
    # Nothing of the first was revoked or deleted on the way.
    assert is_signed_in(at_first) and not is_signed_in(at_second)
    assert at_first.ask("reply: first").output == "first\n"
    assert all(" 401" not in line for line in first.log), first.log


@pytest.mark.parametrize("stranger", ["CHAPPIE_ISSUER", "CHAPPIE_BACKEND"])
def test_one_address_of_another_service_is_another_service(houses, stranger):
    first, second, at_first, _ = houses
    before = len(first.log)
    mixed = at_first.having(**{stranger: second.settings[stranger]})
    mixed.ask("reply: never", status=SIGN_IN_NEEDED)
    assert not is_signed_in(mixed)
    mixed.run("logout")
    assert second.log == [] and len(first.log) == before, (first.log[before:], second.log)
    assert at_first.ask("reply: still here").output == "still here\n"

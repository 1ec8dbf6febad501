"""A credential belongs to the issuer and the backend that it came from, and to no other."""

import pytest

from conftest import SIGN_IN_NEEDED


@pytest.mark.parametrize("store", ["file", "keyring"])
def test_no_other_service_is_sent_anything_of_a_sign_in_or_changes_it(store, simulate, user, passphrase):
    """Two services, and a user of the first with one home, one store and one account name."""
    first, second = simulate(), simulate()
    at_first = user(first, CHAPPIE_CREDENTIAL_STORE=store, **passphrase("a passphrase")).sign_in()
    is_signed_in = lambda user: user.run("status", "--json", status=None).events[0]["signed_in"]
    before = len(first.log)
    for stranger in (second.settings, *({name: second.settings[name]} for name in second.settings)):
        elsewhere = at_first.having(**stranger)
        for transport in ("sse", "websocket"):
            elsewhere.ask("reply: never", transport=transport, status=SIGN_IN_NEEDED)
        for words in (["models"], ["usage"], ["auth", "export", "never"]):
            elsewhere.run(*words, status=SIGN_IN_NEEDED)
        assert not is_signed_in(elsewhere) and is_signed_in(at_first)
        assert elsewhere.run("logout", "--json").events == [{"signed_out": True, "revoked": False, "was_signed_in": False}]
    assert second.log == [] and len(first.log) == before, (first.log[before:], second.log)

    at_second = at_first.having(**second.settings).sign_in()
    assert at_second.ask("reply: second").output == "second\n"
    assert at_second.run("logout", "--json").events == [{"signed_out": True, "revoked": True, "was_signed_in": True}]
    assert len(first.log) == before, first.log[before:]
    # Nothing of the first was revoked or deleted on the way.
    assert is_signed_in(at_first) and not is_signed_in(at_second)
    assert at_first.ask("reply: first").output == "first\n"
    assert all(" 401" not in line for line in first.log), first.log

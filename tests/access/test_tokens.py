"""The text of tokens: form, checksum, digest."""

import string

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from controlplane.access import tokens

ALPHABET = string.ascii_letters + string.digits
texts = st.builds(
    tokens.TokenText,
    kind=st.sampled_from(tokens.KINDS),
    public_id=st.text(ALPHABET, min_size=16, max_size=16),
    secret=st.text(ALPHABET, min_size=43, max_size=43),
)


@given(texts)
def test_parse__what_was_formatted__round_trips(token: tokens.TokenText) -> None:
    assert tokens.parse(token.plaintext) == token
    assert token.plaintext.startswith(f"osre_{token.kind}_{token.public_id}_")


@given(texts, st.integers(0, 200), st.characters())
def test_parse__one_character_changed__refused(token: tokens.TokenText, position: int, character: str) -> None:
    plaintext = token.plaintext
    position %= len(plaintext)
    changed = plaintext[:position] + character + plaintext[position + 1 :]
    assert (tokens.parse(changed) is None) == (changed != plaintext)


@given(texts, st.integers(1, 80))
def test_parse__cut_or_extended__refused(token: tokens.TokenText, length: int) -> None:
    plaintext = token.plaintext
    assert tokens.parse(plaintext[:-length]) is None
    assert tokens.parse(plaintext + "a" * length) is None
    assert tokens.parse(plaintext + "\n") is None


@given(st.text())
def test_parse__anything__no_error(text: str) -> None:
    assert tokens.parse(text) is None


def test_issue__many__random_and_well_formed() -> None:
    issued = [tokens.issue("team") for _ in range(200)]
    assert len({token.public_id for token in issued}) == len({token.secret for token in issued}) == 200
    assert all(tokens.parse(token.plaintext) == token for token in issued)
    with pytest.raises(ValueError, match="kind"):
        tokens.issue("root")


def test_token_text__repr__hides_the_secret() -> None:
    token = tokens.issue("admin")
    assert token.secret not in repr(token)


def test_verify__peppers__old_ones_verify_and_retired_ones_do_not() -> None:
    token = tokens.issue("team")
    with override_settings(TOKEN_PEPPERS={1: "old"}):
        digest = tokens.token_digest(token, tokens.current_pepper())
    with override_settings(TOKEN_PEPPERS={1: "old", 2: "new"}):
        assert tokens.current_pepper() == 2
        assert tokens.verify(token, digest=digest, pepper_version=1)
        assert not tokens.verify(token, digest=digest, pepper_version=2)
        assert not tokens.verify(tokens.issue("team"), digest=digest, pepper_version=1)
    with override_settings(TOKEN_PEPPERS={2: "new"}):
        assert not tokens.verify(token, digest=digest, pepper_version=1)


def test_token_digest__kind_is_bound__not_transferable() -> None:
    token = tokens.issue("team")
    other = tokens.TokenText("admin", token.public_id, token.secret)
    assert tokens.token_digest(token, 1) != tokens.token_digest(other, 1)

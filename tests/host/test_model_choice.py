"""Which model answers."""

import pytest

from antigravity_acp.contract import LlmError
from antigravity_acp.host import ModelChoice, choose_model

DEFAULT = ModelChoice("antigravity-acp", "server-default")


@pytest.mark.requirement("A-003")
@pytest.mark.parametrize(
    ("session", "profile", "expected"),
    [
        (None, None, "antigravity-acp/server-default"),
        ("", "", "antigravity-acp/server-default"),
        (None, "p/m", "p/m"),
        ("s/m", "p/m", "s/m"),
        ("s/m", None, "s/m"),
        ("s/a/b/c", None, "s/a/b/c"),
    ],
)
def test_session_wins_over_profile_and_profile_over_the_default(
    session: str | None, profile: str | None, expected: str
) -> None:
    assert str(choose_model(session=session, profile=profile, default=DEFAULT)) == expected


@pytest.mark.parametrize("text", ["model", "/model", "provider/", "/", " "])
def test_a_saved_choice_that_cannot_be_read_is_an_error_that_names_its_place(text: str) -> None:
    with pytest.raises(LlmError) as caught:
        choose_model(session=text, profile="good/one", default=DEFAULT)
    assert caught.value.code == "INVALID_SETTINGS"
    assert "session's model" in caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"), [("m", "route/m"), ("route/m", "route/m"), ("models/m", "route/models/m"), (" m ", "route/m")]
)
def test_with_a_route_given_a_bare_id_is_enough(text: str, expected: str) -> None:
    assert str(ModelChoice.parse(text, provider="route")) == expected

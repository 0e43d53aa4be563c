from controlplane.core.errors import AppError, FieldError, InvalidInput, NotAuthenticated, NotFound, invalid


def test_as_problem__plain_error__has_the_members_of_rfc_9457_and_no_empty_ones() -> None:
    assert NotFound().as_problem() == {
        "type": "about:blank",
        "title": "Not found",
        "status": 404,
        "code": "not_found",
        "detail": "There is nothing here that you may see.",
    }


def test_as_problem__fields_and_extra__are_members_of_their_own() -> None:
    error = InvalidInput(
        "Two teams.", code="team_required", errors=[FieldError("/team", "required", "Name one.")], extra={"teams": []}
    )
    problem = error.as_problem()
    assert problem["errors"] == [{"pointer": "/team", "code": "required", "detail": "Name one."}]
    assert problem["teams"] == []
    assert problem["code"] == "team_required"


def test_invalid__one_field__says_the_same_at_both_levels() -> None:
    error = invalid("/name", "blank", "This must not be blank.")
    assert (error.status, error.code, error.detail) == (422, "blank", "This must not be blank.")
    assert error.errors == (FieldError("/name", "blank", "This must not be blank."),)


def test_not_authenticated__own_headers__are_added_to_the_challenge() -> None:
    error = NotAuthenticated(headers={"Retry-After": "5"})
    assert error.headers == {"WWW-Authenticate": 'Bearer realm="opensre"', "Retry-After": "5"}


def test_app_error__given_collections__are_not_shared() -> None:
    extra = {"a": 1}
    error = AppError("x", extra=extra)
    extra["a"] = 2
    assert error.as_problem()["a"] == 1

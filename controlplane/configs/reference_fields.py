"""Fields of configuration documents that hold a reference to a credential, never the credential."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from controlplane.core.references import MalformedReference, references_of


def holds_reference(value: str) -> bool:
    """Return whether a text has a reference, or something that was meant as one."""
    try:
        return bool(references_of(value))
    except MalformedReference:
        return True


def require_reference(value: str) -> str:
    """Return a text that refers to a credential; any other is refused by pydantic with ``reference_required``."""
    try:
        referring = bool(references_of(value))
    except MalformedReference:
        referring = False
    if not referring:
        message = "A credential is a reference such as ${NAME}, never the value itself"
        raise PydanticCustomError("reference_required", message)
    return value


Reference = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(require_reference)]

"""What belongs to a local sign-in besides the password: the second factor, and the browsers that are signed in."""

from typing import ClassVar

from django.db import models
from typing_extensions import override

from controlplane.access.models.people import User
from controlplane.access.sessions import SignInMethod
from controlplane.core.ids import new_id


class Authenticator(models.Model):
    """The app on a person's phone that makes codes (TOTP, RFC 6238). Until confirmed by a code it asks for nothing.

    ``secret`` is encrypted under a key made from a numbered pepper, see :mod:`controlplane.access.totp`.
    """

    user = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="authenticator")
    secret = models.TextField(help_text="Encrypted.")
    pepper_version = models.PositiveSmallIntegerField()
    last_step = models.BigIntegerField(default=0, help_text="The last time step whose code was used: none works twice.")
    created_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)

    @override
    def __str__(self) -> str:
        return f"authenticator of {self.user_id}"


class RecoveryCode(models.Model):
    """A code for the day the phone is gone; works once. Only its digest is stored."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64, unique=True)
    pepper_version = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, blank=True)

    @override
    def __str__(self) -> str:
        return f"recovery code of {self.user_id}"


class BrowserSession(models.Model):
    """A signed-in browser, for its owner to see and to end. Whether it is signed in, Django's own session decides."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="browser_sessions")
    session_key = models.CharField(max_length=40, unique=True)
    method = models.CharField(max_length=20, choices=SignInMethod)
    address = models.CharField(max_length=64, blank=True)
    browser = models.CharField(max_length=80, blank=True, help_text="A few words made from the User-Agent.")
    created_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["-seen_at", "id"]

    @override
    def __str__(self) -> str:
        return f"browser of {self.user_id}"

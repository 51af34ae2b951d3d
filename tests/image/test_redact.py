"""Secrets do not show."""

from __future__ import annotations

import pytest

from rocmfix.system.redact import has_credentials, redact


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        ("proxy http://user:hunter2@proxy:3128/", (), "proxy http://***@proxy:3128/"),
        ("https://x-access-token:ghp_abc@host/r.git", (), "https://***@host/r.git"),
        ("token is s3cr3t!", ("s3cr3t",), "token is ***!"),
        ("abcabc abc", ("abc", "abcabc"), "*** ***"),
        ("nothing here", ("",), "nothing here"),
        ("https://host/a@b:c", (), "https://host/a@b:c"),
    ],
)
def test_secrets_and_the_credentials_of_urls_are_masked(text, secrets, shown):
    assert redact(text, secrets) == shown


def test_a_url_with_a_password_is_recognised():
    assert has_credentials("http://u:p@h")
    assert not has_credentials("http://h/u:p")

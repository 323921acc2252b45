"""Addresses of repositories: which spellings are one, and which are never given to git or ssh."""

from __future__ import annotations

import subprocess
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from ags.errors import Unfit
from ags.workspace.address import checked_branch, checked_url

HERE = Path("/")

GOOD = {
    "https://git.example.org/team/shop.git": "shop",
    "https://ann@git.example.org:8443/team/shop": "shop",
    "https://git.example.org/My%20Team/_git/shop": "shop",
    "https://[2001:db8::1]/shop": "shop",
    "http://127.0.0.1:8000/shop.git": "shop",
    "http://localhost/shop": "shop",
    "http://[::1]:99/shop": "shop",
    "ssh://git@git.example.org:2222/~ann/shop.git": "shop",
    "ssh://work/srv/shop": "shop",
    "git@git.example.org:team/shop.git": "shop",
    "work:shop": "shop",
    "work:/srv/my shop!".replace(" ", "-"): "my-shop",
}
BAD = [
    *("", " ", "-", "--upload-pack=touch /tmp/x", "-oProxyCommand=x:y", "a\nb", "a\0b", "a\x1bb"),
    *("https://h/\ud800", "/\ud800", "h:\ud812x"),
    *("ext::sh -c x", "fd::0", "::x", "https::https://h/x", "x+y::z"),
    *("git://h/x", "ftp://h/x", "foo://h/x", "file://host/x"),
    *("https://", "https:///x", "https://h", "https://h/", "https://h//", "https://:1/x"),
    *("https://-h/x", "https://h-/x", "https://h h/x", "https://h:0/x", "https://h:65536/x"),
    *("https://h:x/y", "https://h%2d/x", "https://hé/x", "https://h\\@evil/x", "https://[x]/y"),
    *("https://h/x?token=1", "https://h/x#y", "https://h/a/../b", "https://h/%2e%2e/b"),
    *("https://h/a%0ab", "https://h/a%00b", "https://h/a b", "https://-u@h/x", "https://@h/x"),
    *("http://example.org/x", "http://127.0.0.1.example.org/x", "http://10.0.0.1/x"),
    *("ssh://-oProxyCommand=x/y", "ssh://-u@h/y", "ssh://h", "ssh://h/", "ssh://%2doX=y/z"),
    *("-oProxyCommand=x@h:y", "u@-oProxyCommand=x:y", "h:-x", "@h:x", "u@:x", "h:/", "h:a/../b"),
    *("/no/such/folder", "no-such-folder", "file:///no/such/folder"),
]
SECRET = [
    "https://ann:s3cr3tcanary@git.example.org/shop",
    "https://:s3cr3tcanary@git.example.org/shop",
    "https://ann%3As3cr3tcanary@git.example.org/shop",
    "https://ghp_s3cr3tcanary@git.example.org/shop",
    "https://s3cr3tcanary00000000000000000000@git.example.org/shop",
    "ssh://git:s3cr3tcanary@git.example.org/shop",
    "git:s3cr3tcanary@git.example.org:shop",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_people_write_is_taken_as_they_wrote_it(text: str) -> None:
    url = checked_url(text)
    assert (url.url, url.name, url.folder) == (text, GOOD[text], None)


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(Unfit) as caught:
        checked_url(text, HERE)
    assert caught.value.cause and str(caught.value).isprintable()


@pytest.mark.parametrize("text", SECRET)
def test_an_address_with_credentials_is_refused_without_showing_them(text: str) -> None:
    with pytest.raises(Unfit) as caught:
        checked_url(text)
    shown = f"{caught.value} {caught.value.subject} {caught.value.hint}"
    assert "s3cr3tcanary" not in shown


@pytest.mark.parametrize(
    "one, other",
    [
        ("https://git.example.org/shop", "HTTPS://Git.Example.ORG:443/shop.git/"),
        ("https://git.example.org/shop", "https://ann@git.example.org/shop"),
        ("ssh://git@work/shop", "ssh://git@WORK:22/shop.git"),
        ("git@work:shop", "git@Work:shop.git/"),
    ],
)
def test_spellings_of_one_repository_have_one_key(one: str, other: str) -> None:
    assert checked_url(one).key == checked_url(other).key


@pytest.mark.parametrize(
    "one, other",
    [
        ("https://git.example.org/shop", "https://git.example.org/Shop"),
        ("https://git.example.org/shop", "https://git.example.org:444/shop"),
        ("https://git.example.org/shop", "ssh://git.example.org/shop"),
        ("ssh://ann@work/shop", "ssh://bob@work/shop"),
        ("work:shop", "work:/shop"),
    ],
)
def test_others_have_another(one: str, other: str) -> None:
    assert checked_url(one).key != checked_url(other).key


def test_a_folder_is_the_same_by_whatever_name(tmp_path: Path) -> None:
    (tmp_path / "shop/.git").mkdir(parents=True)
    (tmp_path / "shop.git").mkdir()
    (tmp_path / "link").symlink_to("shop")
    (tmp_path / "a b").mkdir()
    one = checked_url("shop", tmp_path)
    assert (one.url, one.folder) == (str(tmp_path / "shop"), tmp_path / "shop")
    again = (f"file://{tmp_path}/shop", f"{tmp_path}/x/../shop")
    for other in ("./shop/", "link", "shop/.git", *again):
        assert checked_url(other, tmp_path).key == one.key
    assert checked_url("shop.git", tmp_path).key != one.key
    assert checked_url(f"file://{tmp_path}/a%20b").folder == tmp_path / "a b"
    with pytest.raises(Unfit):
        checked_url("shop")


@hypothesis.given(st.text(max_size=40) | st.from_regex(r"[-a-z:/@.%+\\]{0,30}", fullmatch=True))
def test_whatever_is_taken_has_no_place_for_an_option(text: str) -> None:
    try:
        url = checked_url(text)
    except Unfit:
        return
    if url.folder is None:
        place = url.url.partition("://")[2] or url.url
        host = place.partition("/")[0].rpartition("@")[2]
        assert "::" not in url.url.partition("/")[0]
        assert host and not host.startswith("-") and not place.startswith("-")
        assert url.url == checked_url(url.url).url


@hypothesis.given(
    st.from_regex(r"[-a-z./@{~^:?*\[\\ \x7f\nlock]{0,12}", fullmatch=True) | st.text(max_size=8)
)
@hypothesis.settings(max_examples=60)
def test_a_branch_is_judged_as_git_does(name: str) -> None:
    try:
        encoded = f"refs/heads/{name}".encode()
    except UnicodeEncodeError:
        return
    if b"\0" in encoded:
        return
    asked = subprocess.run(("git", "check-ref-format", encoded), check=False).returncode == 0
    allowed = asked and not name.startswith("-") and name not in ("HEAD", "@")
    try:
        taken = checked_branch(name) == name
    except Unfit:
        taken = False
    assert taken == allowed

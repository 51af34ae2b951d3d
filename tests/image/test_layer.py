"""The bytes of a layer depend on the files alone."""

from __future__ import annotations

import io
import tarfile

from hypothesis import given, strategies as st

from rocmfix.image.layer import Entry, archive, plain_tar

FOLDERS = {
    "/srv": Entry("/srv", None, 0o755, 0, 0, 100),
    "/srv/app": Entry("/srv/app", None, 0o750, 1000, 1001, 200),
}


def read(packed: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {member.name: member for member in tar}


def test_owner_mode_and_time_of_files_and_folders_are_kept():
    found = read(archive([Entry("/srv/app/x.py", b"new", 0o640, 1000, 1001, 300)], FOLDERS, 999))
    assert {name: (m.mode, m.uid, m.gid, m.mtime) for name, m in found.items()} == {
        "srv": (0o755, 0, 0, 100),
        "srv/app": (0o750, 1000, 1001, 200),
        "srv/app/x.py": (0o640, 1000, 1001, 300),
    }


def test_a_folder_the_base_lacks_is_roots_and_as_old_as_the_patch():
    found = read(archive([Entry("/etc/rocmfix/manifest.json", b"{}", mtime=999)], {}, 999))
    assert (found["etc/rocmfix"].mode, found["etc/rocmfix"].uid, found["etc/rocmfix"].mtime) == (0o755, 0, 999)


def test_nothing_but_the_files_and_the_folders_above_them_is_in_a_layer():
    found = read(archive([Entry("/srv/app/x.py", b"new")], {**FOLDERS, "/opt": Entry("/opt", None)}, 1))
    assert list(found) == ["srv", "srv/app", "srv/app/x.py"]


@given(st.permutations([Entry(f"/srv/app/{name}.py", name.encode(), mtime=5) for name in "abcde"]))
def test_the_order_in_which_files_are_given_does_not_matter(entries):
    assert archive(entries, FOLDERS, 1) == archive(sorted(entries, key=lambda entry: entry.path), FOLDERS, 1)


def test_entries_are_in_the_order_of_a_walk_so_that_a_reader_can_stop_early():
    names = ["/a/b.c", "/a/b/c", "/a/b", "/a-b"]
    entries = [Entry(name, None if name == "/a/b" else b"") for name in names]
    assert list(read(archive(entries, {}, 1))) == ["a", "a/b", "a/b/c", "a/b.c", "a-b"]


def test_long_and_foreign_names_survive():
    name = "/srv/" + "d" * 120 + "/" + "ü" * 60 + ".py"
    assert list(read(archive([Entry(name, b"x")], {}, 1)))[-1] == name[1:]


def test_a_context_has_no_owner_and_no_time():
    member = read(plain_tar([("Dockerfile", b"FROM x\n")]))["Dockerfile"]
    assert (member.uid, member.gid, member.mtime, member.uname) == (0, 0, 0, "")

"""Starts rocmfix out of its one-file form: unpacks it once into the cache, then runs it from there.

Compiled modules cannot be loaded out of an archive. This file is read by whatever `python3` a pod has, so it
keeps to words that old Pythons understand and says what is missing instead of failing in the middle.
"""

# An old Python has to get as far as the line that says it is too old.
# ruff: noqa: ANN001, ANN201, PTH100, PTH101, PTH102, PTH103, PTH104, PTH110, PTH111, PTH112, PTH118, PTH120, UP031, UP036

import os
import shutil
import sys
import tempfile
import zipfile

DIGEST = ""


def unpacked(archive):
    """The folder with everything in it; made once, by whoever comes first, and complete when it is there."""
    for home in homes():
        site = os.path.join(home, "app-" + DIGEST)
        if is_ours(site):
            return site
        try:
            os.makedirs(home, exist_ok=True)
            work = tempfile.mkdtemp(prefix=".app-", dir=home)
        except OSError:
            continue  # a read-only home: try the next
        try:
            unpack(archive, work)
            try:
                os.rename(os.path.join(work, "site"), site)
            except OSError:
                if not is_ours(site):
                    raise
            return site
        finally:
            shutil.rmtree(work, ignore_errors=True)
    raise SystemExit("rocmfix: no folder to unpack to; set ROCMFIX_CACHE to one that can be written")


def homes():
    """Where to look and to unpack, best first; the last is private to this user whatever /tmp holds."""
    own = os.environ.get("ROCMFIX_CACHE")
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if own:
        yield os.path.expanduser(own)
    yield os.path.join(xdg if xdg.startswith("/") else os.path.expanduser("~/.cache"), "rocmfix")
    shared = os.path.join(tempfile.gettempdir(), "rocmfix-%d" % os.getuid())
    if not os.path.lexists(shared):
        try:
            os.mkdir(shared, 0o700)
        except OSError:
            return
    if is_ours(shared):
        yield shared


def is_ours(folder):
    """Whether the folder is there and nobody but us (or root) can have put anything into it."""
    try:
        state = os.lstat(folder)
    except OSError:
        return False
    return os.path.isdir(folder) and state.st_uid in (os.getuid(), 0) and not state.st_mode & 0o022


def unpack(archive, work):
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(work, [name for name in packed.namelist() if name.startswith("site/")])
    os.chmod(os.path.join(work, "site"), 0o755)


def refuse_other_machine(site):
    """The compiled module has to be there in a form that this Python can load."""
    from importlib.machinery import EXTENSION_SUFFIXES

    module = os.path.join(site, "pydantic_core", "_pydantic_core")
    if not any(os.path.exists(module + end) for end in EXTENSION_SUFFIXES):
        raise SystemExit(
            "rocmfix: this file holds no build for Python %d.%d on this machine (%s); pip install rocmfix"
            % (sys.version_info[0], sys.version_info[1], EXTENSION_SUFFIXES[0])
        )


def main():
    if sys.version_info < (3, 10):
        raise SystemExit(
            "rocmfix needs Python 3.10 or newer; this is " + sys.version.split()[0] + ", " + sys.executable
        )
    site = unpacked(os.path.dirname(os.path.abspath(__file__)))
    refuse_other_machine(site)
    sys.path[0] = site
    from rocmfix.__main__ import start

    start()


if __name__ == "__main__":
    main()

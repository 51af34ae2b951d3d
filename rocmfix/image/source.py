"""`image:REF` as a source: the tree inside an image, from the engine or straight from a registry."""

from __future__ import annotations

import sys

from rocmfix.aiter.layout import AiterTree
from rocmfix.errors import SourceError
from rocmfix.image import local, remote
from rocmfix.image.aiter import aiter_in
from rocmfix.image.inspect import Seen
from rocmfix.image.manifest import PATH, parse
from rocmfix.image.progress import Progress
from rocmfix.image.tree import ImageTree
from rocmfix.system.docker import engine_or_none
from rocmfix.system.reference import is_digest, parse_reference
from rocmfix.system.registry import Registry
from rocmfix.verdict import Record


def open_image(name: str) -> ImageTree:
    """The tree inside the image `name`. What the engine holds is read there; nothing is ever pulled."""
    return see(name, Progress(sys.stderr)).tree


def open_aiter(name: str) -> AiterTree:
    """The AITER inside the image `name`, with the ENV by which it chooses its tables."""
    return aiter_in(see(name, Progress(sys.stderr), kernels=True))


def see(name: str, progress: Progress, *, ask_registry: bool = False, kernels: bool = False) -> Seen:
    """Look into an image: in the engine if it is there, else (or when asked to) in its registry."""
    engine = None if ask_registry else engine_or_none()
    image = engine.image(name) if engine else None
    with progress.step(f"look into {name}"):
        if engine and image:
            return local.look(engine, image, name, kernels=kernels)
        if is_digest(name):
            raise SourceError(f"the engine has no image {name}", hint="docker images --no-trunc lists what it has")
        try:
            reference = parse_reference(name)
        except ValueError as error:
            raise SourceError(f"{name[:200]!r} names no image: {error}", hint="such as lmsysorg/sglang:TAG") from None
        return remote.look(reference, Registry(reference), progress, kernels=kernels)


def record_of(tree: ImageTree) -> Record:
    """What rocmfix did to the image that `tree` lies in, as its manifest says."""
    file = tree.files.get(PATH)
    return parse(file.data).state.record() if file else {}

"""What an X-ray needs of an image that the engine holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from rocmfix.aiter.layout import BAKED, CONFIGS, FILES, FOLDERS, named_tables
from rocmfix.image.checkout import commit_of
from rocmfix.image.inspect import Seen
from rocmfix.image.manifest import PATH, parse
from rocmfix.image.tree import ImageTree, Layout, find_shadow, locate, read_tree
from rocmfix.system.container import Container
from rocmfix.system.docker import Engine, LocalImage


def look(engine: Engine, image: LocalImage, name: str, *, thorough: bool = True, kernels: bool = False) -> Seen:
    """Read the tree, the tables and our manifest out of a container that never starts.

    `thorough` also looks for a second sglang in site-packages; `kernels` also reads which kernels AITER has.
    """
    env = dict(image.env)
    with engine.container(image.id) as container:
        layout = locate(container, env, name)
        record = container.read(PATH)
        more = [*named_tables(env), *(kernel_sources(layout) if kernels else ())]
        tree = _with_folders(container, read_tree(container, layout, f"image:{name}", *more))
        return Seen(
            name=name,
            id=image.id,
            size=image.size,
            platform=image.platform,
            labels=image.labels,
            env=image.env,
            layers=image.layers,
            tree=replace(tree, files={**tree.files, PATH: record}) if record else tree,
            commit=commit_of(container, layout.checkout),
            aiter=commit_of(container, layout.aiter),
            manifest=parse(record.data) if record else None,
            shadow=find_shadow(container, env, layout) if thorough else None,
        )


def kernel_sources(layout: Layout) -> tuple[str, ...]:
    """Where AITER's own source says which tables it reads and which kernels it has."""
    return tuple(f"{layout.aiter}/{path}" for path in (*FILES, *FOLDERS)) if layout.aiter else ()


def _with_folders(container: Container, tree: ImageTree) -> ImageTree:
    """The tree, knowing owner, mode and time of the folders above it: a layer that names one sets all three."""
    tables = (f"{tree.layout.aiter}/{CONFIGS}",) if tree.layout.aiter else ()
    roots = (tree.layout.package, PATH, f"{BAKED}/x", *tables, *tree.layout.caches)
    names = {str(parent) for root in roots for parent in list(PurePosixPath(root).parents)[:-1]}
    found = (container.directory(name) for name in sorted(names) if name not in tree.files)
    return replace(tree, files={**tree.files, **{folder.path: folder for folder in found if folder}})

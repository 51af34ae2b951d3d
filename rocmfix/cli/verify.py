"""`rocmfix verify`: an image against its own manifest."""

from __future__ import annotations

import click

from rocmfix.cli._image import progress
from rocmfix.cli._options import json_option, print_json, print_lines


@click.command(epilog="Exit codes: 0 as its manifest says, 9 not, 7 engine.")
@click.argument("image")
@json_option
def command(image: str, *, as_json: bool) -> None:
    """Compare IMAGE with the manifest that rocmfix put into it: source, bytecode, tables, labels, ENV, by digest."""
    from rocmfix.errors import EngineError, VerifyError
    from rocmfix.image.text import problem_lines, verified_lines
    from rocmfix.image.verify import verify
    from rocmfix.system.docker import Engine

    with progress() as reporting:
        engine = Engine.connect()
        found = engine.image(image)
        if found is None:
            raise EngineError(f"the engine has no image {image[:200]}", hint=f"docker pull {image[:200]}")
        with reporting.step(f"verify {image}"), engine.container(found.id) as container:
            verified = verify(container, found, image)
    if as_json:
        print_json(verified)
    if verified.problems:
        raise VerifyError(
            f"{image} disagrees with its manifest in {len(verified.problems)} places",
            details=() if as_json else tuple(problem_lines(verified)),
            hint="do not run it; rocmfix build makes it anew, rocmfix compare says what else differs",
        )
    if not as_json:
        print_lines(verified_lines(verified))

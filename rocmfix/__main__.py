"""Where every start begins: the `rocmfix` command, `python -m rocmfix`, and the one-file form."""

from __future__ import annotations


def start(prog_name: str = "rocmfix") -> None:
    """The command line. Ctrl-C while modules are still being read ends as it does later on: code 130, no traceback."""
    try:
        from rocmfix.cli import main

        main(prog_name=prog_name)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    start("python -m rocmfix")

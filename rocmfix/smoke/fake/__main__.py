"""Starts the fake with sglang's flags."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from .log import load, moe_lookups, say
from .model import PLAYS, Model
from .server import Handler, Server


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sglang serve", allow_abbrev=False)
    for name in ("--model-path", "--served-model-name", "--host", "--kv-cache-dtype", "--attention-backend"):
        parser.add_argument(name)
    parser.add_argument("--api-key")
    for name, value in (("--port", 30000), ("--tp-size", 1), ("--pp-size", 1), ("--speculative-num-steps", 0)):
        parser.add_argument(name, type=int, default=value)
    for name in ("--disable-custom-all-reduce", "--disable-cuda-graph"):
        parser.add_argument(name, action="store_true")
    return parser.parse_known_args(argv)[0]


def asked_plays(model: str | None) -> frozenset[str]:
    file = Path(model or "") / "plays"
    return frozenset(file.read_text(encoding="utf-8").replace(",", " ").split()) if file.is_file() else frozenset()


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    plays = asked_plays(options.model_path)
    if plays - set(PLAYS):
        raise SystemExit(f"no such play: {plays - set(PLAYS)}; one of {set(PLAYS)}")
    load(options, plays)
    if plays & {"moe", "untuned", "uneven-ranks"}:
        moe_lookups(options, plays)
    steps = options.speculative_num_steps
    server = Server((options.host or "127.0.0.1", options.port), Handler)
    server.options, server.plays = options, plays
    server.model = Model(plays, min(steps, 3) if "ignores-depth" in plays else steps)
    server.setup()
    say("The server is fired up and ready to roll!")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()

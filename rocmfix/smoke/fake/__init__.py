"""A small stand-in for an sglang server: same flags, endpoints, field names, log lines; standard library only.

    python -m rocmfix.smoke.fake --model-path M --port 30000 --speculative-num-steps 4 ...

A file called `plays` in the model's folder names what is broken about it: see PLAYS. Every check of the ladder is
shown to pass and to fail against this server, and so can a user's own check be. Copied into a folder
`sglang/launch_server`, it is what `python -m sglang.launch_server` starts: its imports are relative for that.
"""

from .model import PLAYS as PLAYS

"""No right to build? The patched files in a folder, and the flags that lay them over the stock image."""

from __future__ import annotations

import hashlib
import json
import shlex
import tarfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath

from rocmfix.errors import ApplyError
from rocmfix.image.context import Context
from rocmfix.image.manifest import PATH
from rocmfix.system.files import Copied, new_folder, write_out

_CONFIG_MAP_LIMIT = 1 << 20
"""Bytes a ConfigMap may hold, as they are before base64: https://kubernetes.io/docs/concepts/configuration/configmap/"""


def overlay_files(context: Context) -> Mapping[str, bytes]:
    """Every file that the image would gain, by absolute path; the manifest too, so that `verify` can be run inside."""
    found = dict[str, bytes]()
    for packed in (context.files, context.tables):
        if packed is None:
            continue
        with tarfile.open(fileobj=BytesIO(packed)) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                if stream:
                    found[f"/{member.name}"] = stream.read()
    return found


def write_overlay(context: Context, folder: Path) -> tuple[str, ...]:
    """Write files, `docker.flags` and `kubernetes.json` below the new `folder`; return the docker flags."""
    files = overlay_files(context)
    flags = docker_flags(context, sorted(files), folder.absolute())
    _refuse_large(files)
    with new_folder(folder) as work:
        write_out(work, (Copied(f"root{path}", data) for path, data in files.items()))
        written = {"docker.flags": "\n".join(flags) + "\n", "kubernetes.json": kubernetes(context, files)}
        write_out(work, (Copied(name, text.encode()) for name, text in written.items()))
    return flags


def docker_flags(context: Context, paths: Sequence[str], folder: Path) -> tuple[str, ...]:
    """What to add to `docker run`. Each file is mounted alone, read-only: the folders around it stay the image's."""
    env = (f"--env={shlex.quote(f'{v.name}={v.value}')}" for v in context.manifest.env)
    mounts = (f"--volume={shlex.quote(f'{folder}/root{path}:{path}:ro')}" for path in paths if path != PATH)
    return (*env, *mounts)


def kubernetes(context: Context, files: Mapping[str, bytes]) -> str:
    """A List of ConfigMaps, one a file, and the volumes, mounts and env to paste into the pod's template."""
    wanted = {path: data for path, data in files.items() if path != PATH}
    names = {path: f"rocmfix-{hashlib.sha256(path.encode() + data).hexdigest()[:16]}" for path, data in wanted.items()}
    maps = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names[path], "annotations": {"io.rocmfix/path": path}},
            "immutable": True,
            "binaryData": {"file": b64encode(data).decode()},
        }
        for path, data in sorted(wanted.items())
    ]
    pod = {
        "volumes": [{"name": names[path], "configMap": {"name": names[path]}} for path in sorted(wanted)],
        "volumeMounts": [
            {"name": names[path], "mountPath": path, "subPath": "file", "readOnly": True} for path in sorted(wanted)
        ],
        "env": [{"name": v.name, "value": v.value} for v in context.manifest.env],
    }
    return json.dumps({"configMaps": {"apiVersion": "v1", "kind": "List", "items": maps}, "pod": pod}, indent=1) + "\n"


def _refuse_large(files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        if len(data) > _CONFIG_MAP_LIMIT:
            raise ApplyError(
                f"{PurePosixPath(path).name} has {len(data)} bytes, more than a ConfigMap can hold",
                hint="build the image (rocmfix build -t), or mount the file from a volume of your own",
            )

"""The only effects: files, processes, git, http and docker. Nothing here knows of patches or ROCm."""

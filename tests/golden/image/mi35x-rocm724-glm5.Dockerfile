# Made by rocmfix 0.1.0 for flavour mi35x-rocm724-glm5: sglang 0.5.20 for MI350X and MI355X on ROCm 7.2.4, GLM-5.x MXFP4 tables baked in, shared expert fused or not.
# What was done, file by file and by digest: /etc/rocmfix/manifest.json in the image; `rocmfix verify IMAGE` checks it.
FROM lmsysorg/sglang@sha256:0000000000000000000000000000000000000000000000000000000000000000

# Labels come first: whatever an interrupted build leaves behind carries them, and can be found and removed.
LABEL io.rocmfix.tool="0.1.0" \
      io.rocmfix.flavour="mi35x-rocm724-glm5"

ENV AITER_CONFIG_FMOE="/a:/b"

# The files that changed, already patched, and nothing else. ADD of an archive rather than COPY of a folder: COPY makes
# every file and every folder on the way root's, while an archive keeps owner, mode and time as the base has them.
# Empty files stand where the base had bytecode or a JIT build of what changed: Python and ninja take them for stale.
ADD files.tar /

# Tuned AITER rows, each with its provenance in the manifest.
ADD tables.tar /

#!/usr/bin/env bash
# Resolves pyproject.toml into requirements.lock: hashed, for every supported Python, naming no host. torch and what only
# its GPU builds need stay out: deploy/setup.sh installs the build that fits the machine first.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
    .venv/bin/uv pip compile pyproject.toml --extra dev --extra postgres --universal --python-version 3.11 \
        --constraint deploy/torch.txt --no-annotate --no-header --quiet "$@"
}
left_out=$(compile | grep -oE '^(torch|triton|nvidia[a-z0-9-]*|cuda-[a-z-]+)==' | sed 's/==$//; s/^/--no-emit-package /')
# shellcheck disable=SC2086  # one flag a word is meant
compile --generate-hashes $left_out --output-file requirements.lock
if grep -nE '://' requirements.lock; then echo "requirements.lock names a host" >&2; exit 1; fi

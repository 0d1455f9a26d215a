#!/usr/bin/env bash
# Makes .venv in the project's root from the hashed lock, and installs the project into it. Safe to run again: it does
# nothing when nothing changed. Settings of the machine's pip (find-links, index, certificates) are passed on to uv.
#   PYTHON=python3.12        which interpreter
#   TORCH_BACKEND=cu128      which build of torch; default cpu (auto, cu*, rocm*, see `uv pip install --help`)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv
stamp="$venv/.installed"
uv_version=0.13.9
torch_version=$(sed -n 's/^torch==//p' deploy/torch.txt)
wanted=$(cat requirements.lock pyproject.toml deploy/torch.txt deploy/setup.sh | sha256sum | cut -d' ' -f1)

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
    { echo "kb_pipeline needs Python 3.11, 3.12 or 3.13; set PYTHON=… to one." >&2; exit 1; }
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" ||
    { echo "python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
if [ "$("$venv/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check "uv==$uv_version"
fi
uv() { "$venv/bin/uv" pip "$@" --python "$venv/bin/python"; }

pip_setting() { "$venv/bin/python" -m pip config get "$1" 2>/dev/null || true; }
[ -n "${UV_FIND_LINKS:-}" ] || UV_FIND_LINKS=$(pip_setting global.find-links | tr ' \n' ',,' | sed 's/,*$//')
[ -n "${UV_DEFAULT_INDEX:-}" ] || UV_DEFAULT_INDEX=$(pip_setting global.index-url)
for name in UV_FIND_LINKS UV_DEFAULT_INDEX; do
    if [ -n "${!name}" ]; then export "${name?}"; else unset "$name"; fi
done

has_torch() { "$venv/bin/python" -c "
from importlib.metadata import version
raise SystemExit(version('torch').split('+')[0] != '$torch_version')" 2>/dev/null; }
if ! has_torch; then
    echo "Installing torch $torch_version …"
    # A wheel the machine keeps itself is taken as it is; else the CPU build, which is a tenth of the default one's size.
    uv install --quiet --no-deps --no-index "torch==$torch_version" 2>/dev/null ||
        uv install --quiet --no-deps --torch-backend "${TORCH_BACKEND:-cpu}" "torch==$torch_version" ||
        { echo "The ${TORCH_BACKEND:-cpu} build is out of reach; taking the default one." >&2
          uv install --quiet "torch==$torch_version"; }
fi
echo "Installing the locked packages …"
uv install --quiet --no-deps --require-hashes -r requirements.lock
uv install --quiet --no-deps --editable .
echo "$wanted" > "$stamp"
echo "Ready: .venv/bin/kb ($(du -sh "$venv" | cut -f1))"

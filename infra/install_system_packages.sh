#!/bin/sh
# Install what pip cannot: flite, which speaks the demo corpus. Does nothing where it is there already; otherwise it uses the
# package manager if it may without asking for a password, and says in one line what to install if it may not.
set -eu

if command -v flite >/dev/null 2>&1; then
    exit 0
fi

refuse() {
    echo "error: flite is missing; $1, then run this again" >&2
    exit 1
}

if [ "$(uname -s)" = Darwin ]; then
    command -v brew >/dev/null 2>&1 || refuse "install Homebrew (https://brew.sh) and run: brew install flite"
    brew install flite || refuse "run: brew install flite"
elif command -v apt-get >/dev/null 2>&1; then
    if [ "$(id -u)" -eq 0 ]; then
        as_root="env"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n env"
    else
        refuse "run: sudo apt-get install flite"
    fi
    # A fresh machine or container has no package lists; a machine with lists may be offline and not need new ones.
    # shellcheck disable=SC2086 # as_root is a command and its arguments
    $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends flite ||
        { $as_root apt-get update -q && $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends flite; } ||
        refuse "run: sudo apt-get install flite"
else
    refuse "install it with this system's package manager (package flite)"
fi

command -v flite >/dev/null 2>&1 || refuse "its package was installed but flite is not on PATH; look where it went"

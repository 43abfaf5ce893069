#!/bin/sh
# Install packages that pip cannot: flite, which speaks the demo corpus, and, if requested by name, chromium, which page tests use, and
# postgresql, which `make serve STACK=full` and tests of it and of searches use. Installed packages are skipped. Uses the package manager
# if it requires no password; otherwise prints one line with the command to run.
#
#   sh infra/install_system_packages.sh             # flite
#   sh infra/install_system_packages.sh flite chromium
set -eu

installed() {
    case $1 in
    chromium) command -v chromedriver >/dev/null 2>&1 && { command -v chromium || command -v google-chrome; } >/dev/null 2>&1 ;;
    # Debian installs the server's programs per version, outside PATH
    postgresql) command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

refuse() {
    echo "error: $name is missing; $1, then run this again" >&2
    exit 1
}

apt_install() {
    if [ "$(id -u)" -eq 0 ]; then
        as_root="env"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n env"
    else
        refuse "run: sudo apt-get install $*"
    fi
    # A fresh machine or container has no package lists; a machine with lists may be offline.
    # shellcheck disable=SC2086 # as_root is a command and its arguments
    $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" ||
        { $as_root apt-get update -q && $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; } ||
        refuse "run: sudo apt-get install $*"
}

# Keep Debian's package from creating a server and starting it on the default port.
want_no_server() {
    settings=/etc/postgresql-common/createcluster.conf
    ! [ -e "$settings" ] || return 0 # existing settings
    apt_install postgresql-common
    # shellcheck disable=SC2086 # as_root is a command and its arguments
    $as_root sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' "$settings"
}

[ $# -gt 0 ] || set -- flite
for name in "$@"; do
    case $name in
    flite) packages="flite" ;;
    chromium) packages="chromium chromium-driver" ;; # names in Debian
    postgresql) packages="postgresql" ;;
    *) echo "error: unknown package '$name'; use flite, chromium or postgresql" >&2 && exit 1 ;;
    esac
    ! installed "$name" || continue
    if command -v apt-get >/dev/null 2>&1; then
        [ "$name" != postgresql ] || want_no_server
        # shellcheck disable=SC2086 # one word per package
        apt_install $packages
    elif [ "$(uname -s)" = Darwin ] && [ "$name" = postgresql ]; then
        refuse "run: brew install postgresql@17, and put its programs on PATH"
    elif [ "$(uname -s)" = Darwin ] && [ "$name" = flite ]; then
        command -v brew >/dev/null 2>&1 || refuse "install Homebrew (https://brew.sh) and run: brew install flite"
        brew install flite || refuse "run: brew install flite"
    else
        refuse "install it with this system's package manager (packages: $packages)"
    fi
    installed "$name" || refuse "its package is installed, but it is not on PATH; find it and add its folder to PATH"
done

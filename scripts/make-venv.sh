#!/bin/sh
# Makes the virtual environment given as $1 with $PYTHON, else with the first Python of PATH that is 3.11 to 3.14 and can
# make one. Says what it found when there is none.
set -eu

venv=$1
wanted="Python 3.11, 3.12, 3.13 or 3.14"
found=""
without_venv=""

# Prints "suitable", "no-venv" or "unsuitable", and the version; fails when $1 is no working Python.
probe() {
    "$1" -c '
import sys
version = sys.version_info[:2]
state = "suitable" if (3, 11) <= version <= (3, 14) else "unsuitable"
if state == "suitable":
    try:
        import ensurepip, venv
    except ImportError:
        state = "no-venv"
print(state, "%d.%d" % version)
' 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3 python3.14 python3.13 python3.12 python3.11
fi

for candidate in "$@"; do
    answer=$(probe "$candidate") || continue
    version=${answer#* }
    case $answer in
        suitable*)
            echo "Making $venv with Python $version ($candidate) ..."
            trap 'rm -rf "$venv"; exit 130' INT TERM HUP # half an environment would look like a whole one
            if "$candidate" -m venv --clear "$venv"; then
                exit 0
            fi
            rm -rf "$venv"
            echo "error: $candidate could not make the virtual environment $venv; its own message is above." >&2
            exit 1
            ;;
        no-venv*) without_venv=${without_venv:-$version} ;;
        *) found="$found $candidate is $version;" ;;
    esac
done

if [ -n "$without_venv" ]; then
    echo "error: Python $without_venv is here, but without its modules venv and ensurepip." >&2
    echo "       On Debian and Ubuntu: apt-get install python$without_venv-venv" >&2
elif [ -n "$found" ]; then
    echo "error: OpenSRE needs $wanted. Found:${found%;}." >&2
    echo "       Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
elif [ -n "${PYTHON:-}" ]; then
    echo "error: PYTHON=$PYTHON is no working Python. OpenSRE needs $wanted." >&2
else
    echo "error: OpenSRE needs $wanted; no python3 was found on PATH." >&2
    echo "       On Debian and Ubuntu: apt-get install python3 python3-venv" >&2
fi
exit 1

#!/usr/bin/env bash
# Run tests and ruff from copies of the last commit in places where a user may put it, with the environment that this script is given:
#
#     scripts/check_places.sh                            # the tests that read files, start git or other processes: a few minutes
#     scripts/check_places.sh tests/test_x.py -k name    # others; `tests` for all
#
# Places: a clone whose path has spaces and letters that are not ASCII, with everything that the demo, the book and a look around
# leave behind; a worktree of it; an archive without .git, inside a folder that git ignores; a checkout that cannot be written to,
# as an ordinary user.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
quick=(
    tests/project/test_{house,environment,readme}.py tests/scripts/notebooks/test_{notebooks,provenance}.py
    tests/runs/test_results.py tests/benchmarks/test_task_items.py
    tests/scripts/test_set_up.py::test_make_names_the_index_and_another_one_can_be_named
    tests/kernels/test_backends.py::test_worker_processes_inherit_the_choice
    tests/cli/test_cli.py::test_python_dash_m_rltok_is_the_command_and_hands_on_its_exit_code
    tests/scripts/notebooks/test_chapter_06.py::test_no_command_writes_where_git_or_another_run_would_mind
    tests/scripts/notebooks/test_strict_nbval.py::test_pytest_nbval_alone_is_green_and_runs_tests_and_notebooks
)
tests=("${@:-${quick[@]}}")
WORKERS=${WORKERS-2}  # of pytest-xdist; empty: one process
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
clone="$folder/ein Ort mit Löchern [1]"
git clone -q "$root" "$clone"

# The place comes before the checkout that the environment was made for.
try() {
    echo "== $1"
    (cd "$2" && env PYTHONPATH="$2" "${@:3}" "$python" -m pytest ${WORKERS:+-n $WORKERS} "${tests[@]}")
    (cd "$2" && "${python%/*}/ruff" check -q --no-cache . && "${python%/*}/ruff" format -q --no-cache --check .)
}

mkdir -p "$clone"/{runs/demo-1/learned,build/_build/html/_sources,corpora/one,notebooks/.ipynb_checkpoints,torch,.venv-book/lib}
for place in runs build/_build/html/_sources .venv-book/lib corpora/one; do echo 'import os,sys' > "$clone/$place/runs.py"; done
cp "$clone"/notebooks/00_quickstart.ipynb "$clone"/notebooks/.ipynb_checkpoints/00_quickstart-checkpoint.ipynb
try "a clone in a path with spaces, after the demo and the book" "$clone"

git init -q "$folder/other"
try "the same once more, as from a hook of another repository" "$clone" GIT_DIR="$folder/other/.git"
if git -C "$folder/other" rev-parse -q --verify HEAD; then echo "Tests have committed to another repository." >&2; exit 1; fi

git -C "$clone" worktree add -q "$folder/worktree"
try "a worktree" "$folder/worktree"

mkdir -p "$clone/build/archive"
git -C "$clone" archive HEAD | tar x -C "$clone/build/archive"
try "an archive without .git, inside another repository" "$clone/build/archive"

# root may write anywhere, unless it gives that right away.
user=()
if [ "$(id -u)" = 0 ]; then user=(setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search); fi
chmod -R a-w "$clone"
if "${user[@]}" touch "$clone/x" 2>/dev/null; then echo "$clone can be written to, so nothing would be tried." >&2; exit 1; fi
try "a checkout that cannot be written to" "$clone" "${user[@]}"

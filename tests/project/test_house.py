"""House rules that a machine can check: sizes, docstrings, imports, no machine paths, nothing that unpickles."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import ROOT, TESTS, project_files

MODULES = sorted((ROOT / "rltok").rglob("*.py"))
MODULE_NAMES = [str(path.relative_to(ROOT)) for path in MODULES]
EQUATION_FILES = ["layers", "attention", "baselines", "policy", "resample", "estimator", "losses"]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

each_module = pytest.mark.parametrize("path", MODULES, ids=MODULE_NAMES)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def without_docstring(scope: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Names in a module or class that a reader may use and that no docstring explains.

    Constructors are explained by their class. Names with one leading underscore and nested functions are private.
    """
    for node in scope.body:
        if not isinstance(node, Function | ast.ClassDef) or node.name in ("__init__", "__post_init__"):
            continue
        if node.name.startswith("_") and not node.name.endswith("__"):
            continue
        if ast.get_docstring(node) is None:
            yield f"{node.name} (line {node.lineno})"
        if isinstance(node, ast.ClassDef):
            yield from without_docstring(node)


def numeric_defaults(tree: ast.Module) -> Iterator[str]:
    """Defaults other than None, a truth value, a name or a dtype: of parameters, and of the fields of classes."""
    defaults = [(f, d) for f in functions(tree) for d in (*f.args.defaults, *f.args.kw_defaults) if d is not None]
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        defaults += [(owner, s.value) for s in owner.body if isinstance(s, ast.AnnAssign) and s.value is not None]
    for owner, default in defaults:
        plain = isinstance(default, ast.Constant) and (default.value is None or isinstance(default.value, bool | str))
        if not plain and not ast.unparse(default).startswith("torch."):
            yield f"{owner.name} (line {default.lineno}): {ast.unparse(default)}"


def unpickling(tree: ast.Module) -> Iterator[str]:
    """Imports and calls that run code found in a data file."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(name.split(".")[0] in ("pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve") for name in names):
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            pickled = [k for k in node.keywords if k.arg == "allow_pickle" and ast.unparse(k.value) != "False"]
            if called in ("torch.load", "pandas.read_pickle", "pd.read_pickle") or pickled:
                yield f"line {node.lineno}: {ast.unparse(node)}"


def machine_paths(text: str) -> list[str]:
    """Absolute paths that exist on one person's machine only; `/home/me` is anybody's."""
    return re.findall(r"(?<![\w.)\]}~/-])/(?:home|root|work|tmp|Users)/(?!me\b)[\w.~-]+", text)


def test_there_is_a_package_to_check():
    assert "rltok/config.py" in MODULE_NAMES


@each_module
def test_no_file_is_over_400_lines(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE_LINES, f"{lines} lines, at most {MAX_FILE_LINES}: split the file"


@each_module
def test_no_function_is_over_60_lines(path):
    lengths = {f"{f.name} (line {f.lineno})": f.end_lineno - f.lineno + 1 for f in functions(parse(path))}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}


@each_module
def test_everything_public_has_a_docstring(path):
    tree = parse(path)
    assert not tree.body or ast.get_docstring(tree), "a module starts with what it is for"
    assert list(without_docstring(tree)) == []


@each_module
def test_nothing_in_the_package_unpickles(path):
    assert list(unpickling(parse(path))) == []


@pytest.mark.parametrize("name", EQUATION_FILES)
def test_equation_files_hold_no_hyperparameter_defaults(name):
    assert list(numeric_defaults(parse(ROOT / "rltok" / f"{name}.py"))) == []


def test_every_folder_and_every_module_of_the_method_stands_in_a_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = {name for contract in contracts for name in contract.get("source_modules", ())}
    doors = {"rltok.__init__", "rltok.__main__", "rltok.api", "rltok.exact"}  # they open on everything
    flat = {f"rltok.{path.stem}" for path in (ROOT / "rltok").glob("*.py")} - doors
    assert named == flat | {f"rltok.{path.parent.name}" for path in (ROOT / "rltok").glob("*/__init__.py")}
    assert [contract["name"] for contract in contracts if "ignore_imports" in contract] == []


def test_each_folder_of_the_package_and_of_the_scripts_has_its_folder_of_tests():
    """Those of files of the root, such as this one, lie in project/."""
    folders = {path.parent.relative_to(ROOT / "rltok") for path in (ROOT / "rltok").rglob("__init__.py")}
    folders |= {path.parent.relative_to(ROOT) for level in ("*.py", "*/*.py") for path in (ROOT / "scripts").glob(level)}
    assert {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} == folders | {Path("project")}


def test_no_file_names_a_path_of_one_machine():
    named = {}
    for path in project_files():
        content = path.read_bytes()
        if b"\0" not in content[:8192]:
            named[str(path.relative_to(ROOT))] = machine_paths(content.decode("utf-8", errors="replace"))
    assert "pyproject.toml" in named
    assert {name: paths for name, paths in named.items() if paths} == {}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_an_archive_inside_another_repository_has_files(tmp_path):
    archive = tmp_path / "build" / "rltok"
    for name in ("rltok/a.py", "runs/demo-1/b.py", "corpora/c/d.py", ".venv-book/e.py"):
        (archive / name).parent.mkdir(parents=True)
        (archive / name).touch()
    (tmp_path / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert project_files(archive) == [archive / "rltok" / "a.py"]


def test_importing_rltok_leaves_heavy_packages_alone():
    heavy = ["matplotlib", "datasets", "pyarrow", "scipy", "triton", "ipywidgets", "tensorboard", "tokenizers"]
    # torch first: what it imports on its own account is not ours to avoid.
    code = f"import sys, torch; had = set(sys.modules); import rltok; print([m for m in {heavy} if m in set(sys.modules) - had])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_checks_of_this_file_notice_what_they_look_for():
    bad = """
        class Public:
            def __len__(self): return 1
            def _hidden(self): pass
        def f(gamma=0.9, *, window=-1, backend="auto", mask=None): return torch.load(gamma)
        class Settings:
            eps: float = 1e-6
        import pickle
    """
    tree = ast.parse("\n".join(line[8:] for line in bad.splitlines()))
    assert [name.split()[0] for name in without_docstring(tree)] == ["Public", "__len__", "f", "Settings"]
    assert [text.split(": ")[1] for text in numeric_defaults(tree)] == ["0.9", "-1", "1e-06"]
    assert len(list(unpickling(tree))) == 2
    assert machine_paths("see " + "/home" + "/ann/x and https://a.b/home/page") == ["/home" + "/ann"]


@each_module
def test_what_takes_several_texts_takes_a_plain_string_as_one(path):
    """Which `vocab.as_texts` does, for arguments and fields of the type `vocab.Texts`."""
    tree = parse(path)
    notes = [arg for node in functions(tree) for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    notes += [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)]
    kinds = [ast.unparse(note.annotation) for note in notes if note.annotation is not None]
    assert [kind for kind in kinds if re.search(r"\w\[(str \| bytes|bytes \| str)\b", kind)] == []
    assert "as_texts" in path.read_text(encoding="utf-8") or "Texts" not in kinds or path.name == "sampling.py"  # which hands on

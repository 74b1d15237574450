"""The project as a whole: help of every verb, the schema reference, the README, the imports between layers."""

from __future__ import annotations

import ast
import doctest
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import typer
from commands_page import list_commands

from tracecorr.cli import app, main
from tracecorr.model import schema

ROOT = Path(__file__).parents[1]
COMMANDS = dict(list_commands(typer.main.get_command(app)))
VERBS = sorted(COMMANDS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--help"]) == 0
    told = capfd.readouterr().out
    assert f"tracecorr {verb}" in told
    assert not re.findall(r"<(?:str|int|float|path|list)\b[^>]*>", told, re.IGNORECASE), "a type of Python"


def test_help_loads_no_tables() -> None:
    code = (
        "import sys; from tracecorr.cli import main; status = main(['--help']);"
        "sys.exit(status or any(m in sys.modules for m in ('polars', 'dash', 'numpy')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_unknown_verb_is_wrong_usage(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fly"]) == 2
    assert "fly" in capfd.readouterr().err


def test_schema_reference_renders(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "--schema"]) == 0
    out = capfd.readouterr().out
    for table in schema.TABLES.values():
        assert f"## {table.name}\n" in out
        for column in table.columns:
            assert f"| {column.name} | {column.dtype} |" in out
            assert column.meaning


def test_layers_import_one_way(repo: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=repo,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_imported_is_declared(repo: Path) -> None:
    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    declared = {re.split(r"[\[<>=]", line)[0].lower() for line in lines}
    nodes = [node for path in (repo / "tracecorr").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    roots = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"tracecorr"}
    homes = packages_distributions()
    undeclared = {root for root in roots if not {home.lower() for home in homes.get(root, [root])} & declared}
    assert (undeclared, len(roots) > 10) == (set(), True)


def test_docstrings_are_utf_8(repo: Path) -> None:
    # Python 3.13 compiles no other ones.
    named = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for path in [*(repo / "tracecorr").rglob("*.py"), *(repo / "scripts").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, named):
                (ast.get_docstring(node) or "").encode()


def _modules_with_examples() -> list[str]:
    # Those of the Python API need a capture: they run in tests/api.
    paths = [path for path in (ROOT / "tracecorr").rglob("*.py") if path.stem not in ("api", "figures")]
    shown = [path.relative_to(ROOT).with_suffix("") for path in paths if ">>> " in path.read_text()]
    return sorted(".".join(path.parts) for path in shown)


@pytest.mark.parametrize("module", _modules_with_examples())
def test_the_examples_of_docstrings_show_what_happens(module: str) -> None:
    done = doctest.testmod(import_module(module))
    assert (done.failed, done.attempted > 0) == (0, True)


def test_programs_that_use_the_package_see_its_types(repo: Path) -> None:
    told = tomllib.loads((repo / "pyproject.toml").read_text())["project"]["classifiers"]
    assert ((repo / "tracecorr" / "py.typed").is_file(), "Typing :: Typed" in told) == (True, True)


def _user_pages(repo: Path) -> list[Path]:
    samples = [repo / "samples" / "README.md", repo / "samples" / "workloads" / "README.md"]
    return [repo / "README.md", *samples, *sorted((repo / "tracecorr" / "docs").glob("*.md"))]


def test_pages_name_only_verbs_that_exist(repo: Path) -> None:
    call = re.compile(r"(?:^|`|sudo )(?:\.venv/bin/)?tracecorr ([a-z]+)(?=[ `]|$)(?! what)", re.MULTILINE)
    named = [verb for page in _user_pages(repo) for verb in call.findall(page.read_text())]
    assert len(named) > 40
    assert set(named) - {verb.split()[0] for verb in VERBS} == set()


def test_pages_name_only_sections_that_exist(repo: Path) -> None:
    report = json.loads((repo / "tests" / "analyze" / "expected" / "t1-streams.json").read_text())
    named = [name for page in _user_pages(repo) for name in re.findall(r"--section ([a-z_]+)", page.read_text())]
    assert len(named) > 4
    assert set(named) - report["sections"].keys() == set()


def test_the_readme_is_short(repo: Path) -> None:
    assert len((repo / "README.md").read_text().split()) <= 900


def test_every_topic_of_help_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    topics = [line.split()[0] for line in capfd.readouterr().out.splitlines()[:-1]]
    assert {"capture", "recipes", "commands", "tables"} < set(topics)
    for topic in topics:
        assert main(["help", topic]) == 0
        assert capfd.readouterr().out.startswith("# ")
    assert main(["help", "flying"]) == 2
    assert "topics are: capture" in capfd.readouterr().err


def test_every_variable_of_the_tests_is_on_their_page(repo: Path) -> None:
    read = [
        name
        for path in (repo / "tests").rglob("*.py")
        for name in re.findall(r"""environ(?:\.get)?[(\[]["'](TRACECORR_\w+)""", path.read_text())
    ]
    page = (repo / "tests" / "README.md").read_text()
    assert len(set(read)) > 5
    assert [name for name in read if not re.search(rf"`{name}\b", page)] == []


def test_commands_of_pages_have_only_options_that_exist(repo: Path) -> None:
    seen = 0
    for page in _user_pages(repo):
        blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            words = words[words.index("tracecorr") :] if "tracecorr" in words else []
            if len(words) < 2:
                continue
            verb = words[1] if words[1] in COMMANDS else " ".join(words[1:3])
            known = {option for parameter in COMMANDS[verb].params for option in parameter.opts}
            own = words[2 : words.index("--") if "--" in words else None]
            assert {word for word in own if word.startswith("-")} - known == set(), line
            seen += 1
    assert seen > 30


FOLDERS = ("", "samples/**/", "tests/", "tracecorr/**/")
PAGES = [page for folder in FOLDERS for page in sorted(ROOT.glob(f"{folder}*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_pages_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), target
        headings = re.findall(r"^#+ (.*)", found.read_text(), re.MULTILINE) if heading else [""]
        assert heading in [re.sub(r"[^a-z0-9 -]", "", text.lower()).replace(" ", "-") for text in headings], target


@pytest.mark.parametrize("folder", ["tracecorr", "tracecorr/clock", "tracecorr/capture", "tracecorr/link"])
def test_pages_name_only_modules_that_exist(repo: Path, folder: str) -> None:
    named = re.findall(r"`([a-z_/]+\.py)`", (repo / folder / "README.md").read_text())
    modules = [path for root in ("tracecorr", "scripts") for path in (repo / root).rglob("*.py")]
    assert named
    assert [name for name in named if not any(path.match(name) for path in modules)] == []


@pytest.mark.parametrize("layer", ["capture", "link"])
def test_the_page_of_a_layer_of_many_modules_names_all_of_them(repo: Path, layer: str) -> None:
    modules = {path.name for path in (repo / "tracecorr" / layer).rglob("*.py")} - {"__init__.py"}
    named = re.findall(r"`(?:[a-z_]+/)*([a-z_]+\.py)`", (repo / "tracecorr" / layer / "README.md").read_text())
    assert modules
    assert modules - set(named) == set()


def test_every_script_is_on_the_page_of_the_house(repo: Path) -> None:
    scripts = [path.name for path in (repo / "scripts").iterdir() if path.is_file() and "." not in path.name]
    page = (repo / "tracecorr" / "README.md").read_text().partition("## Scripts\n")[2].partition("\n## ")[0]
    assert len(scripts) > 5
    assert [name for name in scripts if not re.search(rf"`{name}\b", page)] == []


@pytest.mark.parametrize(
    ("script", "page"),
    [("make_commands_page", "tracecorr/cli/COMMANDS.md"), ("make_tables_page", "tracecorr/model/TABLES.md")],
)
def test_scripts_make_the_pages_in_the_environment_of_the_checkout(
    repo: Path, tmp_path: Path, script: str, page: str
) -> None:
    """No Python with tracecorr is on the PATH; the environment that is ready is a stand-in for that of a checkout."""
    shutil.copytree(repo / "scripts", tmp_path / "scripts")
    shutil.copy(repo / "pyproject.toml", tmp_path)
    (tmp_path / page).parent.mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(repo))} exec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    ready = "source scripts/_environment.sh; fingerprint >.venv/.stamp"
    bare = {"PATH": "/usr/bin:/bin"}
    subprocess.run(["bash", "-c", ready], cwd=tmp_path, env=bare, check=True)
    subprocess.run([tmp_path / "scripts" / script], env=bare, check=True)
    assert (tmp_path / page).read_text() == (repo / page).read_text()


def test_every_subject_of_bench_can_be_run(repo: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "benchmarks"], cwd=repo / "scripts", capture_output=True, text=True, check=False
    )
    subjects = listed.stderr.split("subjects: ")[1].strip().split(", ")
    assert listed.returncode == 2 and "truth" in subjects
    for subject in subjects:
        code = (repo / "scripts" / "benchmarks" / f"{subject}.py").read_text()
        assert "\ndef main(" in code and f'prog="scripts/bench {subject}"' in code, subject


def test_scripts_hold_no_places_of_one_machine(repo: Path) -> None:
    for script in (*(repo / "scripts").iterdir(), repo / ".ci" / "run"):
        if script.is_file():
            assert not re.search(r"file://|/home/|/opt/|https?://", script.read_text()), script

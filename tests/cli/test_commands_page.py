"""Every command and every option is on the page of commands, and the README links it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from commands_page import list_commands, render_commands

from tracecorr.cli import app, main


def test_commands_page_is_current(repo: Path) -> None:
    page = (repo / "tracecorr" / "cli" / "COMMANDS.md").read_text()
    assert page == render_commands(app), "run scripts/make_commands_page"


def test_every_option_is_there_and_says_what_it_does(repo: Path) -> None:
    page = (repo / "tracecorr" / "cli" / "COMMANDS.md").read_text()
    assert "tracecorr/cli/COMMANDS.md" in (repo / "README.md").read_text()
    root = typer.main.get_command(app)
    for name, command in list_commands(root):
        section = page.split(f"\n## tracecorr {name}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            if parameter.name != "help":
                words = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar or ""]
                assert all(word.replace("|", "\\|") in section for word in words), (name, parameter.name)
                assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"


def test_help_shows_a_value_only_behind_an_option_that_takes_one(capfd: pytest.CaptureFixture[str]) -> None:
    """`--force <bool>` would have a user write `--force true`, and run `true`."""
    for words in ([], ["capture"], ["serve"]):
        assert main([*words, "--help"]) == 0
        shown = capfd.readouterr().out
        assert "bool" not in shown and "--" in shown

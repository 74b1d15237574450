"""The column reference is the one that the schema renders."""

from pathlib import Path

from tracecorr.model import schema


def test_tables_page_is_current(repo: Path) -> None:
    page = (repo / "tracecorr" / "model" / "TABLES.md").read_text()
    assert page == schema.render_page(), "run scripts/make_tables_page"

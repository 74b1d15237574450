"""The column reference is the one that the schema renders."""

from pathlib import Path

from tracecorr.model import schema
from tracecorr.model.kinds import FLAG_MEANINGS, LAYERS, Flag


def test_tables_page_is_current(repo: Path) -> None:
    page = (repo / "tracecorr" / "model" / "TABLES.md").read_text()
    assert page == schema.render_page(), "run scripts/make_tables_page"


def test_vocabularies_are_spelled_out() -> None:
    """Who reads `query --schema` does not know the names of tracecorr's modules."""
    page = schema.render_page()
    assert "kinds." not in page
    assert all(f"`{layer}`" in page for layer in LAYERS)
    assert set(FLAG_MEANINGS) == set(Flag)
    assert f"{int(Flag.TORN)} = {FLAG_MEANINGS[Flag.TORN]}" in page

"""Self-contained HTML pages: blocks, charts, style and templates."""

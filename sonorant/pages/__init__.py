"""Pages that need nothing beside them: blocks, charts, the style and the templates the report and the corpus share."""

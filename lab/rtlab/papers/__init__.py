"""`rtlab paper`: the papers' tables and figures made again, each cell beside the published value."""

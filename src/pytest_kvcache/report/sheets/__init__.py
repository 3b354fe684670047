"""A session as tables for spreadsheets and data frames: what stands in which column, and how a cell is written."""

"""How the site is built: ``sphinx-build -W --keep-going -n -b html docs OUT``, without network."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pytest-kvcache"
author = "The pytest-kvcache developers"
copyright = author
version = release = version_of(project)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "kvdocs"]
exclude_patterns = ["_ext"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"{project} {version}"
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

default_role = "code"  # docstrings are read in terminals too: `name` there is code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
toc_object_entries_show_parents = "hide"
# Lists that describe `one / another` together stay as they are written.
napoleon_use_param = False
napoleon_custom_sections = [("Attributes", "params_style")]
nitpicky = True
# Types in signatures: foreign ones have no page here (no network, so no inventories), inner ones are not public.
nitpick_ignore_regex = [("py:(class|data|obj|exc)", r".*")]

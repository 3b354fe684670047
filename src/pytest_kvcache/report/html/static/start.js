// Draws the sections that the page shows at once.
"use strict";
for (const place of document.querySelectorAll("[data-sections]")) {
  place.append(...sections.draw(place.dataset.sections, Number(place.dataset.level)));
}

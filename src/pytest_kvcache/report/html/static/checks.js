// The table of checks: found, sorted, and opened one by one; what is not open is no more than text in the page.
"use strict";
(() => {
  const table = document.getElementById("checks");
  if (!table) return;
  const bodies = [...table.tBodies];
  const find = document.getElementById("find");
  const shown = document.getElementById("shown");
  const words = new Map(bodies.map((body) => [body, body.textContent.toLowerCase()]));

  function filter() {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdict = document.querySelector("#filter input[name=verdict]:checked").value;
    let count = 0;
    for (const body of bodies) {
      const fits = (!verdict || body.dataset.verdict === verdict) && wanted.every((word) => words.get(body).includes(word));
      body.hidden = !fits;
      count += fits;
    }
    shown.textContent = `${count.toLocaleString("en")} of ${bodies.length.toLocaleString("en")}`;
  }

  function valueOf(body, column) {
    const cell = body.rows[0].querySelector(`[data-column="${column}"]`);
    if (cell.dataset.value === undefined) return cell.textContent;
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  }

  // What is not told stands last, whichever way the others go.
  function sort(button) {
    const header = button.closest("th");
    const down = header.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", "none"));
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = bodies.map((body) => [valueOf(body, button.dataset.sort), body]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
      return down ? -order : order;
    });
    table.append(...keyed.map(([, body]) => body));
  }

  // A narrow page hides columns; a cell that spans hidden ones would bring them back.
  const columns = () => String([...table.tHead.rows[0].cells].filter((cell) => cell.offsetParent).length);
  const span = () => table.querySelectorAll(":scope > tbody > .detail-row > td").forEach((cell) => cell.setAttribute("colspan", columns()));

  function open(body, wanted = true) {
    const button = body.querySelector("button.open");
    const isOpen = body.rows.length > 1;
    if (isOpen === wanted) return;
    button.setAttribute("aria-expanded", String(wanted));
    if (!wanted) {
      charts.forget(body.rows[1]);
      body.rows[1].remove();
      return;
    }
    const number = body.dataset.check;
    const cell = sections.make("td", { colspan: columns() });
    cell.append(sections.make("div", { class: "detail", children: sections.draw(`check-${number}`, 3) }));
    const row = sections.make("tr", { class: "detail-row", id: `detail-${number}`, children: [cell] });
    button.setAttribute("aria-controls", row.id);
    body.append(row);
  }

  function goTo(number) {
    const body = bodies.find((one) => one.dataset.check === number);
    if (!body) return;
    body.hidden = false;
    open(body);
    body.scrollIntoView();
    body.querySelector("button.open").focus({ preventScroll: true });
  }

  addEventListener("resize", span);
  find.addEventListener("input", filter);
  document.getElementById("filter").addEventListener("change", filter);
  document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-sort]");
    if (button) sort(button);
  });
  table.addEventListener("click", (event) => {
    const row = event.target.closest("tbody > tr:first-child");
    if (!row || (!event.target.closest("button.open") && String(getSelection()))) return; // who marks text wants to copy it
    open(row.parentElement, row.parentElement.rows.length === 1);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-open]");
    const code = event.target.closest("[data-find]");
    if (link) {
      event.preventDefault();
      goTo(link.dataset.open);
    }
    if (code) {
      find.value = code.dataset.find;
      document.querySelector("#filter input[name=verdict][value='']").checked = true; // as many as the overview counts
      filter();
      document.getElementById("checks-title").scrollIntoView();
    }
  });
  const asked = /^#row-(\d+)$/.exec(location.hash);
  if (asked) goTo(asked[1]);
})();

// Sections of data to elements. Every text is set as text, so none of it can become markup.
"use strict";
const sections = (() => {
  const marks = { pass: "✓", fail: "✕", inconclusive: "?", held: "✓", breached: "✕" };

  function make(tag, { text, children = [], ...attributes } = {}) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    element.append(...children);
    return element;
  }

  function toned(cell) {
    const mark = make("span", { text: `${marks[cell.text] ?? "·"} `, "aria-hidden": "true" });
    return make("span", { class: `verdict ${cell.tone}`, children: [mark, cell.text] });
  }

  function table({ rows, words, title }) {
    const [header, ...others] = rows;
    const classOf = (column) => (words.includes(column) ? "words" : "");
    const cells = (row, tag, extra) =>
      make("tr", {
        children: row.map((cell, column) =>
          typeof cell === "string"
            ? make(tag, { text: cell, class: classOf(column), ...extra })
            : make(tag, { children: [toned(cell)], class: classOf(column) }),
        ),
      });
    const head = make("thead", { children: [cells(header, "th", { scope: "col" })] });
    const body = make("tbody", { children: others.map((row) => cells(row, "td")) });
    const caption = title ? [make("caption", { text: title })] : [];
    return make("div", { class: "scroll", tabindex: "0", children: [make("table", { children: [...caption, head, body] })] });
  }

  const finding = (one) =>
    make("li", {
      children: [
        make("span", { class: `code ${one.severity}`, text: one.code }),
        make("span", { class: "unseen", text: ` ${one.severity} ` }),
        make("span", { text: one.sentence }),
        ...(one.advice ? [make("span", { class: "advice", text: one.advice })] : []),
      ],
    });

  const pair = ([name, value]) =>
    make("div", { children: [make("dt", { text: name }), make("dd", { text: value })] });

  const kinds = {
    text: (text) => make("p", { text }),
    left: (text) => make("p", { class: "left", text }),
    items: (lines) => make("ul", { children: lines.map((text) => make("li", { text })) }),
    findings: (several) => make("ul", { class: "findings", children: several.map(finding) }),
    pairs: (several) => make("dl", { children: several.map(pair) }),
    table,
    figure: (figure) => charts.place(figure),
    folded: (block) => folded(block),
  };

  function folded(block) {
    const summary = make("summary", { text: block.table?.title ? `Figures: ${block.table.title}` : "Figures" });
    const details = make("details", { class: "folded", children: [summary] });
    const fill = () => details.childElementCount < 2 && details.append(...elements(block));
    details.addEventListener("toggle", () => details.open && fill());
    return details;
  }

  function elements(block) {
    return Object.entries(block).map(([kind, content]) => kinds[kind](content));
  }

  function section({ title, blocks, wide }, level) {
    const heading = title ? [make(`h${level}`, { text: title })] : [];
    return make("section", { class: wide ? "part wide" : "part", children: [...heading, ...blocks.flatMap(elements)] });
  }

  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const draw = (id, level) => read(id).map((one) => section(one, level));
  return { draw, make };
})();

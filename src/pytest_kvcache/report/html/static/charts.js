// Charts: drawn by Plotly when they come into view, in the colours of the page.
"use strict";
const charts = (() => {
  const touch = matchMedia("(pointer: coarse)"); // there a finger on a chart scrolls the page
  const config = {
    displaylogo: false,
    displayModeBar: touch.matches ? false : "hover",
    responsive: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { filename: "kvcache" },
  };
  const figures = new WeakMap();
  const drawn = new Set();
  const watcher = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
    { rootMargin: "300px" },
  );

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // Replaces the names of colours by colours, all the way down; other texts may begin with @ too.
  function coloured(part, name = "") {
    if (part === "@heat" && name === "colorscale") return [0, 1, 2, 3, 4].map((n) => [n / 4, colour(`heat${n}`)]);
    if (typeof part === "string") return name === "color" && part.startsWith("@") ? colour(part.slice(1)) : part;
    if (Array.isArray(part)) return part.map((one) => coloured(one, name));
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, coloured(value, key)]));
  }

  // Where a trace has texts, they are what hovering shows.
  function hovering(trace) {
    const text = ["hovertext", "text"].find((name) => trace[name] !== undefined);
    return text ? { hovertemplate: `%{${text}}<extra></extra>`, ...trace } : trace;
  }

  function axis(own) {
    const [rule, muted] = [colour("rule"), colour("muted")];
    const title = { standoff: 8, font: { size: 12, color: muted } };
    return {
      gridcolor: rule, zerolinecolor: rule, linecolor: rule, tickfont: { color: muted, size: 11 }, automargin: true,
      ...own, title: { ...title, ...(own?.title ?? {}) },
    };
  }

  function layoutOf(figure) {
    const own = coloured(figure.layout);
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") },
      margin: { l: 48, r: 16, t: 32, b: 24 },
      hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("rule"), font: { color: colour("ink"), size: 12 }, align: "left" },
      legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("muted"), activecolor: colour("accent") },
      dragmode: touch.matches ? false : "zoom",
      height: figure.height,
      autosize: true,
      ...own,
    };
    for (const name of ["xaxis", "yaxis", "yaxis2"]) if (name !== "yaxis2" || own.yaxis2) layout[name] = axis(own[name]);
    return layout;
  }

  function draw(element) {
    watcher.unobserve(element);
    const figure = figures.get(element);
    drawn.add(element);
    return Plotly.react(element, coloured(figure.data).map(hovering), layoutOf(figure), config);
  }

  function place(figure) {
    const { make } = sections;
    const chart = make("div", { class: "chart", role: "img", "aria-label": figure.name, style: `min-height:${figure.height}px` });
    figures.set(chart, figure);
    watcher.observe(chart);
    return make("figure", { children: [make("figcaption", { text: figure.name }), chart] });
  }

  function forget(parent) {
    for (const element of parent.querySelectorAll(".chart")) {
      watcher.unobserve(element);
      if (drawn.delete(element)) Plotly.purge(element);
    }
  }

  theme.onChange(() => drawn.forEach(draw));
  addEventListener("beforeprint", () => document.querySelectorAll(".chart").forEach((one) => drawn.has(one) || draw(one)));
  return { place, forget };
})();

// Light or dark: as the system says, until the reader says otherwise. Runs before anything is drawn.
"use strict";
const theme = (() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const listeners = [];
  let chosen = null; // for this page only: nothing is stored
  let printing = false; // paper is light
  function show() {
    root.dataset.theme = printing ? "light" : chosen ?? (system.matches ? "dark" : "light");
    const button = document.getElementById("theme");
    if (button) button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
    listeners.forEach((listener) => listener());
  }
  function print(begins) {
    printing = begins;
    show();
  }
  system.addEventListener("change", show);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.setAttribute("aria-label", "switch between light and dark");
    button.addEventListener("click", () => {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      show();
    });
    show();
  });
  show();
  return { onChange: (listener) => listeners.push(listener) };
})();

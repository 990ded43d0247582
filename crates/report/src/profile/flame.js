// A flame graph that is clicked and searched. Each function is a <g> with its place (data-x) and width (data-w) as parts of the whole.
(() => {
  const svg = document.currentScript.closest("svg");
  const number = (element, name) => Number(element.dataset[name]);
  const [margin, room, letter] = ["margin", "room", "letter"].map((name) => number(svg, name));
  const functions = [...svg.querySelectorAll("g[data-n]")].map((g) => ({
    g, x: number(g, "x"), w: number(g, "w"), d: number(g, "d"), name: g.dataset.n,
    rect: g.querySelector("rect"), text: g.querySelector("text"),
  }));
  const inside = (a, b) => a.x >= b.x - 1e-7 && a.x + a.w <= b.x + b.w + 1e-7;

  const zoom = (to) => {
    for (const f of functions) {
      // Callers of what was clicked stay, as wide as the picture.
      const shown = f.d < to.d ? inside(to, f) : inside(f, to);
      f.g.style.display = shown ? "" : "none";
      if (!shown) continue;
      const from = f.d < to.d ? 0 : (f.x - to.x) / to.w;
      const part = f.d < to.d ? 1 : f.w / to.w;
      const width = Math.max(room * part - 0.4, 0.2);
      const x = margin + room * from;
      f.rect.setAttribute("x", x);
      f.rect.setAttribute("width", width);
      f.rect.setAttribute("fill-opacity", f.d < to.d ? 0.45 : 1);
      f.text.setAttribute("x", x + 3);
      const letters = Math.floor((width - 6) / letter);
      f.text.textContent = letters < 3 ? "" : f.name.length <= letters ? f.name : f.name.slice(0, letters - 1) + "…";
    }
  };

  const input = svg.querySelector("input, [type=search]");
  const output = input.nextElementSibling;
  const search = () => {
    const wanted = input.value.trim().toLowerCase();
    let share = 0;
    const outermost = [];
    for (const f of functions) {
      const found = wanted !== "" && f.name.toLowerCase().includes(wanted);
      f.g.classList.toggle("found", found);
      // What a function that was found calls is in its share already.
      if (found && !outermost.some((o) => o.d < f.d && inside(f, o))) {
        outermost.push(f);
        share += f.w;
      }
    }
    output.textContent = wanted === "" ? "" : `${(100 * share).toFixed(1)} % of samples`;
  };

  for (const f of functions) f.g.addEventListener("click", () => zoom(f));
  input.addEventListener("input", search);
})();

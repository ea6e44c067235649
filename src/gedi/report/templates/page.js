"use strict";
// Draws the charts described by Python, in the colours of the reader's light or dark mode, and shows thumbnails on hover.
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const touch = matchMedia("(pointer: coarse)").matches;
  const narrow = matchMedia("(max-width: 40rem)").matches;
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function colours(layout) {
    const axes = Object.keys(layout).filter((key) => /^[xy]axis/.test(key));
    const changes = { "font.color": token("--ink"), "modebar.color": token("--soft"), "modebar.activecolor": token("--ink"), "hoverlabel.bgcolor": token("--card"), "hoverlabel.bordercolor": token("--line"), "hoverlabel.font.color": token("--ink") };
    for (const key of axes) {
      changes[`${key}.gridcolor`] = token("--grid");
      changes[`${key}.linecolor`] = token("--line");
      changes[`${key}.zerolinecolor`] = token("--line");
    }
    return changes;
  }

  // Numbers in cells use the page's text colour: plotly would choose one as if the cell were opaque.
  async function recolour(place) {
    const written = place.data.flatMap((trace, i) => (trace.texttemplate ? [i] : []));
    if (written.length) await Plotly.restyle(place, { "textfont.color": token("--ink") }, written);
    return Plotly.relayout(place, colours(place.layout));
  }

  function complete(layout) {
    const full = {
      margin: { l: 56, r: 14, t: 26, b: 46 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 13 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemsizing: "constant" },
      modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)" },
      dragmode: touch ? false : "zoom", // on a phone, a finger scrolls the page and the buttons zoom
      ...layout,
    };
    for (const key of Object.keys(full).filter((name) => /^[xy]axis/.test(name))) {
      full[key] = { automargin: true, ...full[key] };
    }
    if (narrow) {
      full.margin = { ...full.margin, l: 40, r: 6 };
      full.legend = { ...full.legend, font: { size: 11 } };
      // Long column names would leave no room for the chart.
      if (full.yaxis?.ticktext) full.yaxis.ticktext = full.yaxis.ticktext.map((name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name));
    }
    return full;
  }

  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: touch ? true : "hover",
    ...(touch ? { modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d"]] } : { modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] }),
    showTips: false,
  };

  const places = [...document.querySelectorAll("[data-chart]")].filter((place) => content.charts[place.dataset.chart]);
  const drawn = places.map((place) => {
    const { data, layout } = content.charts[place.dataset.chart];
    if (narrow) for (const trace of data) if (trace.type === "heatmap") trace.showscale = false;
    return Plotly.newPlot(place, data, complete(layout), config).then(() => recolour(place));
  });
  Promise.all(drawn).then(() => document.documentElement.setAttribute("data-ready", "yes"));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    places.forEach(recolour);
  });

  const map = places.find((place) => place.dataset.chart === "map");
  const sheet = content.sheet;
  if (!map || !sheet) return;
  const thumb = document.querySelector(".thumb");
  const picture = thumb.querySelector("i");
  const text = thumb.querySelector("span");
  const scale = 112 / sheet.width;
  picture.style.height = `${sheet.height * scale}px`;
  picture.style.backgroundImage = `url(${sheet.source})`;
  picture.style.backgroundSize = `${112 * sheet.columns}px ${sheet.height * scale * sheet.lines}px`;

  // Point labels are written for plotly, which interprets tags and entities.
  const plain = (marked) => marked.replaceAll("<br>", "\n").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  function show(event) {
    const point = event.points[0];
    const place = point.customdata;
    picture.style.backgroundPosition = `-${112 * (place % sheet.columns)}px -${sheet.height * scale * Math.floor(place / sheet.columns)}px`;
    text.textContent = plain(point.text);
    thumb.hidden = false;
    const { clientX, clientY } = event.event.touches ? event.event.touches[0] : event.event;
    const { width, height } = thumb.getBoundingClientRect();
    const left = clientX + 18 + width > innerWidth ? Math.max(4, clientX - width - 18) : clientX + 18;
    thumb.style.left = `${left}px`;
    thumb.style.top = `${Math.min(Math.max(4, clientY - height / 2), Math.max(4, innerHeight - height - 4))}px`;
  }
  Promise.all(drawn).then(() => {
    map.on("plotly_hover", show);
    map.on("plotly_click", show);
    map.on("plotly_unhover", () => { thumb.hidden = true; });
    addEventListener("scroll", () => {
      thumb.hidden = true;
      Plotly.Fx.unhover(map); // otherwise plotly, still on that point, would not fire again for it
    }, { passive: true });
  });
})();

"use strict";
// Draws the charts described by Python, in the colours of the reader's light or dark mode; switches between the views of
// a map; shows thumbnails on hover; copies commands.
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const { colours: palette, inks, symbols } = content.look;
  const touch = matchMedia("(pointer: coarse)").matches;
  const narrow = matchMedia("(max-width: 40rem)").matches;
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- charts ----

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

  const recolour = (place) => Plotly.relayout(place, colours(place.layout));

  function complete(layout) {
    const full = {
      margin: { l: 56, r: 36, t: 26, b: 46 }, // room for the buttons on the right
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 13 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemsizing: "constant" },
      modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)" },
      hoverlabel: { align: "left" },
      dragmode: touch ? false : "zoom", // on a phone, a finger scrolls the page and the buttons zoom
      ...layout,
    };
    for (const key of Object.keys(full).filter((name) => /^[xy]axis/.test(name))) {
      full[key] = { automargin: true, ...full[key] };
    }
    if (narrow) {
      full.margin = { ...full.margin, l: 40 };
      full.legend = { ...full.legend, font: { size: 11 } };
      full.height = Math.min(full.height, 440);
    }
    return full;
  }

  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: touch ? true : "hover",
    ...(touch ? { modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d"]] } : { modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] }),
    showTips: false,
    showSendToCloud: false, // it would upload the rows
    plotlyServerURL: "",
  };

  const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

  // The traces of one view of a cloud of points: one for each group, with a colour and a symbol of its own.
  function seen(cloud, view, hasPictures) {
    const groups = [...new Set(view.group)].sort((a, b) => a - b);
    const name = (group) => (view.names ? view.names[group] : `cluster ${group}`);
    const other = view === cloud.views[0] ? () => "" : (group) => `<br>${view.name}: ${name(group)}`;
    const traces = groups.map((group) => {
      const mine = view.group.flatMap((one, i) => (one === group ? [i] : []));
      const marker = { color: palette[group % palette.length], symbol: symbols[group % symbols.length], size: 7, opacity: 0.8, line: { width: 0 } };
      const trace = { type: "scatter", mode: "markers", name: name(group), x: mine.map((i) => cloud.x[i]), y: mine.map((i) => cloud.y[i]), customdata: mine, marker };
      if (!cloud.text) return { ...trace, hoverinfo: "skip" };
      trace.text = mine.map((i) => cloud.text[i] + other(group));
      return hasPictures ? { ...trace, hoverinfo: "none" } : { ...trace, hovertemplate: "%{text}<extra></extra>" };
    });
    const notes = !cloud.numbered ? [] : traces.map((trace, i) => ({
      x: median(trace.x), y: median(trace.y), text: `<b>${view.names ? trace.name : groups[i]}</b>`, showarrow: false, opacity: 0.9,
      bgcolor: trace.marker.color, font: { color: inks[groups[i] % inks.length], size: 12 }, borderpad: 3, bordercolor: "#ffffff", borderwidth: 1.5,
    }));
    return [traces, notes];
  }

  function draw(place) {
    const chart = content.charts[place.dataset.chart];
    const layout = complete(chart.layout);
    place.style.height = `${layout.height}px`; // otherwise a resized chart would forget its height and cover what follows
    let traces = chart.data;
    if (chart.cloud) [traces, layout.annotations] = seen(chart.cloud, chart.cloud.views[0], place === map && content.sheet);
    return Plotly.newPlot(place, traces, layout, config).then(() => recolour(place));
  }

  const places = [...document.querySelectorAll("[data-chart]")].filter((place) => content.charts[place.dataset.chart]);
  const map = places.find((place) => place.dataset.chart === "map");
  const folded = (place) => place.closest("details:not([open])");
  // A folded chart is drawn when it is opened: it has no size before.
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", () => {
      for (const place of places) if (details.contains(place) && !folded(place) && !place.data) draw(place);
    });
  }
  const drawn = Promise.all(places.filter((place) => !folded(place)).map(draw));
  drawn.then(() => document.documentElement.setAttribute("data-ready", "yes"));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    places.filter((place) => place.data).forEach(recolour);
  });
  // Paper is white, whatever the screen is, and narrower than most screens.
  for (const name of ["beforeprint", "afterprint"]) {
    addEventListener(name, () => places.filter((place) => place.data && !folded(place)).forEach((place) => { recolour(place); Plotly.Plots.resize(place); }));
  }

  for (const group of document.querySelectorAll("[data-views]")) {
    const place = places.find((one) => one.dataset.chart === group.dataset.views);
    const { cloud } = content.charts[group.dataset.views];
    const note = document.querySelector(`[data-note="${group.dataset.views}"]`);
    const buttons = [...group.querySelectorAll("button")];
    buttons.forEach((button, i) => button.addEventListener("click", () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      const [traces, annotations] = seen(cloud, cloud.views[i], content.sheet);
      // The regions behind the points are those of the run itself.
      const images = (content.charts[group.dataset.views].layout.images || []).map((image) => ({ ...image, visible: i === 0 }));
      Plotly.react(place, traces, { ...place.layout, annotations, images }, config);
      note.textContent = cloud.views[i].note;
    }));
  }

  // ---- commands ----

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
      } catch { // not allowed here: at least select it, so that it can be copied by hand
        getSelection().selectAllChildren(code);
        button.textContent = document.execCommand("copy") ? "copied" : "selected";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }

  // ---- thumbnails ----

  const sheet = content.sheet;
  if (!map || !sheet) return;
  const thumb = document.querySelector(".thumb");
  const picture = thumb.querySelector("i");
  const text = thumb.querySelector("span");
  const scale = Math.min(112 / sheet.width, 150 / sheet.height);
  const [width, height] = [sheet.width * scale, sheet.height * scale];
  picture.style.width = `${width}px`;
  picture.style.height = `${height}px`;
  picture.style.backgroundImage = `url(${sheet.source})`;
  picture.style.backgroundSize = `${width * sheet.columns}px ${height * sheet.lines}px`;

  // Point labels are written for plotly, which interprets tags and entities.
  const plain = (marked) => marked.replaceAll("<br>", "\n").replaceAll(/<\/?b>/g, "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  function show(event) {
    const point = event.points[0];
    const place = point.customdata;
    picture.style.backgroundPosition = `-${width * (place % sheet.columns)}px -${height * Math.floor(place / sheet.columns)}px`;
    text.textContent = plain(point.text);
    thumb.hidden = false;
    const { clientX, clientY } = event.event.touches ? event.event.touches[0] : event.event;
    const box = thumb.getBoundingClientRect();
    const left = clientX + 18 + box.width > innerWidth ? Math.max(4, clientX - box.width - 18) : clientX + 18;
    thumb.style.left = `${left}px`;
    thumb.style.top = `${Math.min(Math.max(4, clientY - box.height / 2), Math.max(4, innerHeight - box.height - 4))}px`;
  }
  drawn.then(() => {
    map.on("plotly_hover", show);
    map.on("plotly_click", show);
    map.on("plotly_unhover", () => { thumb.hidden = true; });
    addEventListener("scroll", () => {
      thumb.hidden = true;
      Plotly.Fx.unhover(map); // otherwise plotly, still on that point, would not fire again for it
    }, { passive: true });
  });
})();

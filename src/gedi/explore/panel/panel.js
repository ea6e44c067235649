"use strict";

// Okabe and Ito's colours, which colour-blind readers can tell apart.
const COLOURS = ["#0a7abf", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c8c8c", "#b5a300"];
const colour = (cluster) => COLOURS[cluster % COLOURS.length];
const at = (id) => document.getElementById(id);
let about = null;
let last = null;

// Text is only ever inserted as text: the names of files and columns cannot become markup.
function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function short(value) {
  if (value === null) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

const values = (row) => row.values.map(short).join(", ") + (about.features > row.values.length ? ", …" : "");

function bar(label, share, count, className, fillColour) {
  const line = element("div", "bar");
  const track = element("div", "track");
  const fill = element("div", "fill " + (className || ""));
  fill.style.width = 100 * share + "%";
  if (fillColour) fill.style.background = fillColour;
  track.append(fill);
  line.append(label, track, element("span", "count", count));
  return line;
}

function chip(cluster) {
  const made = element("span", "chip");
  const dot = element("span", "dot");
  dot.style.background = colour(cluster);
  made.append(dot, String(cluster));
  return made;
}

function picture(source, text) {
  const made = element("img");
  made.src = source;
  made.alt = text;
  made.loading = "lazy";
  return made;
}

function cell(...content) {
  const made = element("td");
  made.append(...content);
  return made;
}

function neighbour(example) {
  const made = element("div", "neighbour");
  made.title = values(example);
  if (about.image) made.append(picture(`example/${example.place}.png`, `example ${example.place}`));
  made.append(chip(example.cluster), "at " + Number(example.distance.toPrecision(2)));
  return made;
}

function familiarity(row) {
  const badge = element("span", "badge " + row.familiarity, row.familiarity);
  badge.title = `at least as typical as ${Math.round(100 * row.below)} % of the examples, by log density and by OOD score`;
  return [cell(badge), cell(short(row.log_density)), cell(short(row.ood_score))];
}

function line(row, index) {
  const made = element("tr");
  const first = row.picture ? picture(row.picture, `row ${index}`) : element("span", "values", values(row));
  const probability = element("div", "probability");
  const track = element("div", "track");
  const fill = element("div", "fill");
  fill.style.width = 100 * row.probability + "%";
  fill.style.background = colour(row.cluster);
  track.append(fill);
  probability.append(track, row.probability.toFixed(2));
  const neighbours = element("div", "neighbours");
  neighbours.append(...row.nearest.map(neighbour));
  made.append(cell(first), cell(chip(row.cluster)), cell(probability), ...(about.density ? familiarity(row) : []),
    cell(neighbours));
  return made;
}

function drawPlane() {
  const shown = about.points && last;
  at("plane-card").hidden = !shown;
  if (!shown) return;
  const canvas = at("plane");
  const pen = canvas.getContext("2d");
  const dropped = last.shown.map((row) => row.values);
  const all = about.points.concat(dropped);
  const ends = [0, 1].map((axis) => [Math.min(...all.map((p) => p[axis])), Math.max(...all.map((p) => p[axis]))]);
  const scale = Math.min(...[canvas.width, canvas.height].map((size, axis) => (size - 48) / (ends[axis][1] - ends[axis][0] || 1)));
  const place = (p) => [
    canvas.width / 2 + (p[0] - (ends[0][0] + ends[0][1]) / 2) * scale,
    canvas.height / 2 - (p[1] - (ends[1][0] + ends[1][1]) / 2) * scale,
  ];
  pen.clearRect(0, 0, canvas.width, canvas.height);
  about.points.forEach((point, i) => {
    pen.globalAlpha = 0.45;
    pen.fillStyle = colour(about.point_clusters[i]);
    pen.beginPath();
    pen.arc(...place(point), 4, 0, 2 * Math.PI);
    pen.fill();
  });
  pen.globalAlpha = 1;
  pen.lineWidth = 3;
  dropped.forEach((point, i) => {
    pen.beginPath();
    pen.arc(...place(point), 8, 0, 2 * Math.PI);
    pen.fillStyle = colour(last.shown[i].cluster);
    pen.fill();
    pen.strokeStyle = getComputedStyle(document.body).color;
    pen.stroke();
  });
}

function show(answer) {
  last = answer;
  at("name").textContent = `${answer.name}: ${answer.more ? "the first " : ""}${answer.rows.toLocaleString("en")} row${answer.rows === 1 ? "" : "s"}`;
  const counted = answer.clusters.map((count, cluster) => [count, cluster]).filter(([count]) => count);
  counted.sort((one, two) => two[0] - one[0]);
  at("bars").replaceChildren(...counted.map(([count, cluster]) => {
    const label = element("span", "", "cluster ");
    label.append(chip(cluster));
    return bar(label, count / answer.rows, count, "", colour(cluster));
  }));
  at("familiar").replaceChildren(...(about.density ? ["typical", "unusual", "foreign"] : []).map((word) => {
    const count = answer.familiar[word] || 0;
    return bar(element("span", word, word), count / answer.rows, count, word);
  }));
  at("body").replaceChildren(...answer.shown.map(line));
  const left = answer.rows - answer.shown.length;
  at("rest").textContent = (left > 0 ? `${left.toLocaleString("en")} more rows are counted above but not listed. ` : "")
    + (answer.more ? "The file has more rows; use gedi predict for all of them." : "");
  at("summary").hidden = at("rows").hidden = false;
  drawPlane();
}

function complain(sentence) {
  at("problem").textContent = sentence;
  at("problem").hidden = false;
  at("summary").hidden = at("rows").hidden = true;
}

async function send(file) {
  at("problem").hidden = true;
  if (file.size > about.limits.bytes) {
    complain(`${file.name} has ${file.size.toLocaleString("en")} bytes, but the limit here is ${about.limits.bytes.toLocaleString("en")}: use gedi predict instead.`);
    return;
  }
  at("busy").hidden = false;
  try {
    const headers = { "Content-Type": "application/octet-stream", "X-File-Name": encodeURIComponent(file.name) };
    const reply = await fetch("answer", { method: "POST", body: file, headers });
    const content = await reply.json();
    if (reply.ok) show(content);
    else complain(content.error);
  } catch {
    complain("No answer: the file could not be sent, or gedi explore has stopped.");
  } finally {
    at("busy").hidden = true;
    at("file").value = "";
  }
}

function choose(name) {
  for (const other of ["explore", "report"]) {
    at(other).hidden = other !== name;
    at("tab-" + other).setAttribute("aria-selected", String(other === name));
  }
  const frame = document.querySelector("iframe");
  if (name === "report" && !frame.src) frame.src = frame.dataset.page;
}

async function start() {
  for (const name of ["explore", "report"]) at("tab-" + name).addEventListener("click", () => choose(name));
  const drop = at("drop");
  // The whole window accepts files, so that one dropped beside the field does not make the browser leave the page.
  window.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  window.addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.classList.remove("over"); });
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) { choose("explore"); send(event.dataTransfer.files[0]); }
  });
  at("file").addEventListener("change", (event) => { if (event.target.files.length) send(event.target.files[0]); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => about && drawPlane());
  about = await (await fetch("about.json")).json();
  at("run").textContent = about.run;
  document.title = `gedi explore ${about.run}`;
  const shape = about.image ? `images of ${about.image.join(" × ")}` : `rows of ${about.features} features`;
  at("about").textContent = `${about.clusters} clusters of ${shape}` + (about.data ? `, trained on ${about.data}` : "");
  at("kinds").textContent = about.image ? "PNG, JPEG, .npy, .npz or .csv" : ".csv, .npy or .npz";
  at("compared").textContent = about.density
    ? `Compared with ${about.examples.rows.toLocaleString("en")} ${about.examples.kind}. A row is foreign if 99 % of them are more typical, by log density or by OOD score; it is unusual if 95 % are.`
    : "This run has no density, so it cannot tell how familiar a row is.";
  for (const head of document.querySelectorAll("th.density")) head.hidden = !about.density;
  at("dots").textContent = about.examples.kind;
}

start();

"use strict";

const PAGE = 100; // rows in the table; a button shows more
const at = (id) => document.getElementById(id);
let about = null;
let rows = []; // of all files, as shown: {file, row, values, cluster, ...}
let shown = PAGE;
let sorting = null; // {key, down}

const colour = (cluster) => (cluster < 0 ? "#888888" : about.colours[cluster % about.colours.length]); // -1: in no cluster

// Text is only ever inserted as text: the names of files and columns cannot become markup.
function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function short(value) {
  if (value === null) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e12)) return value.toExponential(2);
  return String(size >= 1e4 ? Math.round(value) : Number.isInteger(value) ? value : Number(value.toPrecision(4)));
}

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

function chip(cluster, text = cluster) {
  const made = element("span", "chip");
  const dot = element("span", "dot");
  dot.style.background = colour(cluster);
  made.append(dot, String(text));
  return made;
}

function picture(source, text) {
  const made = element("img");
  made.src = source;
  made.alt = text;
  made.loading = "lazy";
  return made;
}

function cell(content, className) {
  const made = element("td", className);
  made.append(...[content].flat());
  return made;
}

const example = (place) => ({ name: about.examples.names[place], cluster: about.examples.clusters[place], values: about.examples.values[place] });

function neighbour([place, distance]) {
  const made = element("div", "neighbour");
  const { name, cluster, values } = example(place);
  const told = (values || []).map((value, i) => `${about.columns[i]}: ${short(value)}`);
  made.title = [name, ...told, `cluster ${cluster}, at distance ${short(distance)}`].join("\n");
  if (about.image) made.append(picture(`example/${place}.png`, name));
  made.append(chip(cluster, about.image ? cluster : name));
  return made;
}

function probability(row) {
  const made = element("div", "probability");
  const track = element("div", "track");
  const fill = element("div", "fill");
  fill.style.width = 100 * row.probability + "%";
  fill.style.background = colour(row.cluster);
  track.append(fill);
  made.append(track, row.probability.toFixed(2));
  return made;
}

function familiarity(row) {
  const badge = element("span", "badge " + row.familiarity, row.familiarity);
  badge.title = `at least as typical as ${Math.round(100 * row.below)}% of the examples, by log density`;
  return badge;
}

// ---- the table ----

// Each column: its name on the page and in the downloaded file, the value to sort and write, and how it is shown.
function columns() {
  const several = new Set(rows.map((row) => row.file)).size > 1;
  return [
    ...(several && rows.some((row) => row.row !== row.file) ? [{ title: "File", key: "file", value: (row) => row.file }] : []),
    { title: "Row", key: "row", value: (row) => row.row, order: (row) => row.place },
    ...(about.image ? [{ title: "Image", value: () => "", cell: (row) => (row.picture ? picture(row.picture, row.row) : "–") }] : []),
    { title: "Cluster", key: "cluster", value: (row) => row.cluster, cell: (row) => chip(row.cluster) },
    { title: "Probability", key: "probability", value: (row) => row.probability, cell: probability },
    ...(about.density ? [{ title: "Familiarity", key: "familiarity", value: (row) => row.familiarity, cell: familiarity, order: (row) => row.below }] : []),
    ...about.columns.map((name, i) => ({ title: name, key: name, number: rows.every((row) => typeof row.values[i] !== "string"), value: (row) => row.values[i], cell: (row) => short(row.values[i]) })),
    ...(!about.density ? [] : [
      { title: "Log density", key: "log_density", number: true, value: (row) => row.log_density, cell: (row) => short(row.log_density) },
      { title: "OOD score", key: "ood_score", number: true, value: (row) => row.ood_score, cell: (row) => short(row.ood_score) },
    ]),
    { title: "Nearest examples", value: () => "", cell: (row) => { const made = element("div", "neighbours"); made.append(...row.nearest.map(neighbour)); return made; } },
  ];
}

function found() {
  const [text, cluster, familiar] = [at("find").value.trim().toLowerCase(), at("of-cluster").value, at("of-familiarity").value];
  const searched = columns().filter((column) => column.key);
  const kept = rows.filter((row) => (cluster === "" || row.cluster === Number(cluster)) && (familiar === "" || row.familiarity === familiar)
    && (text === "" || searched.some((column) => short(column.value(row)).toLowerCase().includes(text))));
  const column = sorting && searched.find((one) => one.key === sorting.key);
  if (!column) return kept;
  const order = column.order || column.value;
  const sign = sorting.down ? -1 : 1;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  return kept.toSorted((one, two) => {
    const [a, b] = [order(one), order(two)];
    return a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b); // gaps last
  });
}

function head(column) {
  const made = element("th", column.number ? "number" : "");
  made.scope = "col";
  if (!column.key) {
    made.textContent = column.title;
    return made;
  }
  const isSorted = sorting && sorting.key === column.key;
  made.setAttribute("aria-sort", !isSorted ? "none" : sorting.down ? "descending" : "ascending");
  const button = element("button", "", column.title);
  button.type = "button";
  button.addEventListener("click", () => {
    sorting = !isSorted ? { key: column.key, down: false } : sorting.down ? null : { key: column.key, down: true };
    list();
    [...at("heads").querySelectorAll("button")].find((one) => one.textContent === column.title).focus(); // it was re-created
  });
  made.append(button);
  return made;
}

function list() {
  const all = found();
  const some = columns();
  at("heads").replaceChildren(...some.map(head));
  at("body").replaceChildren(...all.slice(0, shown).map((row) => {
    const line = element("tr");
    line.append(...some.map((column) => cell(column.cell ? column.cell(row) : String(column.value(row)), column.number ? "number" : "")));
    return line;
  }));
  at("count").textContent = (all.length === rows.length ? "" : `${all.length.toLocaleString("en")} of `) + counted(rows.length);
  at("more").hidden = all.length <= shown;
  at("more").textContent = `Show ${Math.min(PAGE, all.length - shown)} more of ${all.length.toLocaleString("en")}`;
}

function written(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Writes the rows that are shown, in the same order.
function download() {
  const some = columns().filter((column) => column.key);
  const lines = [some.map((column) => column.key), ...found().map((row) => some.map((column) => column.value(row)))];
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([lines.map((line) => line.map(written).join(",")).join("\n") + "\n"], { type: "text/csv" }));
  link.download = `gedi-${about.run}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function drawPlane() {
  const isPlane = about.features === 2 && [...about.examples.values, ...rows.map((row) => row.values)].every((point) => point.length === 2 && point.every((value) => typeof value === "number"));
  at("plane-card").hidden = !isPlane;
  if (!isPlane || !rows.length) return;
  const canvas = at("plane");
  const pen = canvas.getContext("2d");
  const known = about.examples.values;
  const dropped = rows.map((row) => row.values);
  const all = known.concat(dropped);
  const ends = [0, 1].map((axis) => all.reduce(([low, high], p) => [Math.min(low, p[axis]), Math.max(high, p[axis])], [Infinity, -Infinity]));
  const scale = Math.min(...[canvas.width, canvas.height].map((size, axis) => (size - 48) / (ends[axis][1] - ends[axis][0] || 1)));
  const place = (p) => [
    canvas.width / 2 + (p[0] - (ends[0][0] + ends[0][1]) / 2) * scale,
    canvas.height / 2 - (p[1] - (ends[1][0] + ends[1][1]) / 2) * scale,
  ];
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.globalAlpha = 0.45;
  known.forEach((point, i) => {
    pen.fillStyle = colour(about.examples.clusters[i]);
    pen.beginPath();
    pen.arc(...place(point), 4, 0, 2 * Math.PI);
    pen.fill();
  });
  pen.globalAlpha = 1;
  pen.lineWidth = 3;
  pen.strokeStyle = getComputedStyle(document.body).color;
  dropped.forEach((point, i) => {
    pen.beginPath();
    pen.arc(...place(point), 8, 0, 2 * Math.PI);
    pen.fillStyle = colour(rows[i].cluster);
    pen.fill();
    pen.stroke();
  });
}

// ---- files ----

const counted = (count, word = about.thing) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

function show(answers, isExample) {
  rows = answers.flatMap((answer) => answer.rows.map((row) => ({ ...row, file: answer.name })));
  rows.forEach((row, place) => { row.place = place; });
  shown = PAGE;
  sorting = null;
  at("find").value = at("of-familiarity").value = "";
  const cut = answers.filter((answer) => answer.more).map((answer) => answer.name);
  const names = answers.length > 3 ? counted(answers.length, "file") : answers.map((answer) => answer.name).join(", ");
  at("name").textContent = isExample ? `Example: ${counted(rows.length)}` : `${names}: ${cut.length ? "the first " : ""}${counted(rows.length)}`;
  at("example").hidden = !isExample;
  at("example").textContent = `These are ${about.examples.kind}. Drop your own files to see them here instead.`;
  const sizes = new Map();
  for (const row of rows) sizes.set(row.cluster, (sizes.get(row.cluster) || 0) + 1);
  const largest = [...sizes].sort((one, two) => two[1] - one[1]);
  at("bars").replaceChildren(...largest.map(([cluster, count]) => {
    const label = element("span", "", "cluster ");
    label.append(chip(cluster));
    return bar(label, count / rows.length, count, "", colour(cluster));
  }));
  at("of-cluster").replaceChildren(new Option("all", ""), ...[...sizes.keys()].sort((a, b) => a - b).map((cluster) => new Option(cluster, cluster)));
  at("familiar").replaceChildren(...(about.density ? ["typical", "unusual", "foreign"] : []).map((word) => {
    const count = rows.filter((row) => row.familiarity === word).length;
    return bar(element("span", word, word), count / rows.length, count, word);
  }));
  at("rest").textContent = (about.width > about.columns.length ? `The first ${about.columns.length} of ${about.width} columns are shown. ` : "")
    + (cut.length ? `${cut.join(", ")}: only the first rows are read here; use gedi predict for all of them.` : "");
  at("summary").hidden = at("rows").hidden = false;
  list();
  drawPlane();
}

// What the model says about a file, or an error that says what is wrong with it.
async function ask(file) {
  const limit = about.limits.bytes;
  if (file.size > limit) throw new Error(`${file.name} has ${file.size.toLocaleString("en")} bytes, but the limit here is ${limit.toLocaleString("en")}: use gedi predict instead.`);
  const headers = { "Content-Type": "application/octet-stream", "X-File-Name": encodeURIComponent(file.name) };
  let reply, content;
  try {
    reply = await fetch("answer", { method: "POST", body: file, headers });
    content = await reply.json();
  } catch {
    throw new Error(`${file.name}: no answer. It could not be sent, or gedi explore has stopped.`);
  }
  if (!reply.ok) throw new Error(content.error);
  return content;
}

async function send(files) {
  const [answers, problems] = [[], []];
  at("problems").hidden = true;
  at("busy").hidden = false;
  for (const [i, file] of files.entries()) {
    at("busy").textContent = files.length > 1 ? `Asking the model: ${file.name} (${i + 1} of ${files.length})…` : "Asking the model…";
    try {
      answers.push(await ask(file));
    } catch (error) {
      problems.push(error.message);
    }
  }
  at("busy").hidden = true;
  at("file").value = "";
  at("problems").replaceChildren(...problems.map((sentence) => element("li", "", sentence)));
  at("problems").hidden = !problems.length;
  if (answers.length) show(answers, false);
  else at("summary").hidden = at("rows").hidden = true;
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
    if (event.dataTransfer.files.length) { choose("explore"); send([...event.dataTransfer.files]); }
  });
  at("file").addEventListener("change", (event) => { if (event.target.files.length) send([...event.target.files]); });
  for (const id of ["find", "of-cluster", "of-familiarity"]) at(id).addEventListener("input", () => { shown = PAGE; list(); });
  at("more").addEventListener("click", () => { shown += PAGE; list(); });
  at("download").addEventListener("click", download);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => about && drawPlane());
  about = await (await fetch("about.json")).json();
  about.thing = about.image ? "image" : "row";
  const one = about.image ? "An image" : "A row";
  at("run").textContent = about.run;
  document.title = `gedi explore ${about.run}`;
  const shape = about.image ? `images of ${about.image.join(" × ")}` : `rows with ${about.width} columns`;
  at("about").textContent = `${about.clusters} clusters of ${shape}` + (about.data ? `, trained on ${about.data}` : "");
  at("kinds").textContent = about.image ? "PNG, JPEG, .npy, .npz or .csv" : ".csv, .tsv, .xlsx, .npy or .npz";
  at("compared").textContent = about.density
    ? `Compared with ${about.examples.names.length.toLocaleString("en")} ${about.examples.kind}. ${one} is foreign if 99% of them have a higher log density; it is unusual if 95% do.`
    : `This run has no density, so it cannot tell how familiar ${one.toLowerCase()} is.`;
  for (const part of document.querySelectorAll(".density")) part.hidden = !about.density;
  at("dots").textContent = about.examples.kind;
  if (!about.image) at("needs").textContent = `with the columns ${about.columns.join(", ")}${about.width > about.columns.length ? `, … (${about.width})` : ""}`;
  show([await (await fetch("example.json")).json()], true);
}

start();

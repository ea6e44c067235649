"""Answers about a run and about new data."""

import base64
import io
import json
import re
import zipfile
import zlib
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gedi import GEDI, runs
from gedi.data.customers import CITIES, customers
from gedi.errors import DataError
from gedi.explore import site as site_module
from gedi.explore import uploads
from gedi.explore.uploads import rows_of

ROWS = np.array([[-3.0, -3.0], [3.0, 3.0], [500.0, -500.0]])


def saved(save, *arrays, **named):
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


def picture(pixels, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


# ---- pages ----


def test_about_describes_the_run_and_its_limits(talk, talk_images):
    about = json.loads(talk(path="about.json")[2])
    assert (about["features"], about["clusters"], about["image"]) == (2, 2, None)
    assert about["limits"] == {"bytes": uploads.BODY_BYTES}
    assert about["columns"] == ["feature 0", "feature 1"] and len(about["colours"]) == 20
    assert {len(about["examples"][name]) for name in ("names", "clusters", "values")} == {
        len(talk.server.site.examples.rows)
    }
    images = json.loads(talk_images(path="about.json")[2])
    assert images["image"] == [8, 8, 3] and images["columns"] == images["examples"]["values"] == []


def test_the_page_begins_with_some_of_the_examples(talk):
    said, about = (json.loads(talk(path=path)[2]) for path in ("example.json", "about.json"))
    assert 0 < len(said["rows"]) <= 12 and said["name"] == about["examples"]["kind"]
    for row in said["rows"]:
        (place, distance), *_ = row["nearest"]
        assert about["examples"]["names"][place] == row["row"] and distance < 1e-6


def test_rows_kept_by_a_run_have_their_own_numbers_and_columns_their_names(serve, talk, tmp_path):
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 2)), columns=["height", "weight"])
    table.to_csv(tmp_path / "people.csv", index=False)
    settings = {"step1.iterations": 3, "step2.iterations": 3, "start.nodes": 5}
    GEDI(n_clusters=2, preset="smoke", training=settings, random_state=0).fit(table).save(tmp_path / "run")
    with serve(tmp_path / "run", str(tmp_path / "people.csv")) as server:
        about = json.loads(type(talk)(server)(path="about.json")[2])
        _, said = type(talk)(server).ask(b"weight,height\n2,1\n")
    assert about["columns"] == ["height", "weight"] and about["examples"]["names"][7] == "row 7"
    assert said["rows"][0]["values"] == [1.0, 2.0] and said["rows"][0]["row"] == "row 0"


def test_words_units_gaps_and_ids_are_shown_as_in_the_file(serve, talk, tmp_path):
    frame, _ = customers(60)
    frame.to_csv(tmp_path / "shop.csv", index=False)
    settings = {"step1.iterations": 3, "step2.iterations": 3, "start.nodes": 5}
    GEDI(n_clusters=2, preset="smoke", training=settings, random_state=0).fit(frame).save(tmp_path / "run")
    some = frame.iloc[:2].assign(city=["Ghent", ""], spend=["12.50 EUR", "8.00 EUR"], orders=["3", "4"])
    with serve(tmp_path / "run", str(tmp_path / "shop.csv")) as server:
        about, first = (json.loads(type(talk)(server)(path=path)[2]) for path in ("about.json", "example.json"))
        _, said = type(talk)(server).ask(some.to_csv(index=False).encode())
    assert about["columns"][0] == "city" and about["width"] == 8 and about["features"] > 8
    shown = [dict(zip(about["columns"], row["values"], strict=True)) for row in said["rows"]]
    assert shown[0]["city"] == "Ghent" and shown[0]["spend"] == "12.50 EUR" and shown[0]["orders"] == 3
    assert shown[1]["city"] is None, "a gap stays a gap"
    assert said["rows"][1]["row"] == f"row 1 · customer_id {frame['customer_id'][1]}"
    assert re.fullmatch(r"row \d+ · customer_id C\d+", first["rows"][0]["row"])
    assert first["rows"][0]["values"][0] in CITIES


def test_without_a_report_the_page_says_how_to_make_one(talk):
    status, _, content = talk(path="report.html")
    assert status == 200 and b"gedi report RUN" in content


def test_the_report_is_served_unchanged_but_no_link_is_followed(rows_run, talk, tmp_path):
    report = rows_run / "report.html"
    try:
        report.write_text("<h1>mine</h1>")
        assert talk(path="report.html")[2] == b"<h1>mine</h1>"
        report.unlink()
        (tmp_path / "secret").write_text("secret")
        report.symlink_to(tmp_path / "secret")
        status, _, content = talk(path="report.html")
        assert status == 422 and b"link" in content and b"secret" not in content
    finally:
        report.unlink()


def test_examples_of_images_are_pictures(talk_images, image_run):
    status, headers, content = talk_images(path="example/3.png")
    assert status == 200 and headers["Content-Type"] == "image/png"
    model = runs.load(image_run)
    row = model.scaler.inverse(model.chains[3:4].numpy(), dtype=np.float64).reshape(8, 8, 3)
    shown = np.asarray(Image.open(io.BytesIO(content)), dtype=np.float64)
    np.testing.assert_allclose(shown, np.clip(row, 0, 255), atol=0.51)
    assert talk_images(path="example/999999.png")[0] == 404


def test_no_page_makes_requests_elsewhere():
    for file in files("gedi.explore").joinpath("panel").iterdir():
        text = file.read_text()
        assert not re.search(r"https?:|//[a-z]", text.replace("\n// ", "\n")), file.name
        assert not re.search(r"innerHTML|outerHTML|document\.write|eval\(|\son[a-z]+=|style=", text), file.name


# ---- answers ----


KINDS = {
    "rows.csv": "a,b\n" + "\n".join(f"{a},{b}" for a, b in ROWS),
    "bare.csv": "\n".join(f"{a},{b}" for a, b in ROWS),
    "rows.tsv": "\n".join(f"{a}\t{b}" for a, b in ROWS),
    "rows.npy": saved(np.save, ROWS),
    "rows.npz": saved(np.savez_compressed, x=ROWS),
    "fortran.npz": saved(np.savez, x=np.asfortranarray(ROWS)),
    "no suffix": saved(np.save, ROWS),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gets_the_models_own_answers(talk, rows_run, name):
    body = KINDS[name]
    status, said = talk.ask(body.encode() if isinstance(body, str) else body, name.replace(" ", "%20"))
    assert status == 200 and said["name"] == name and len(said["rows"]) == 3 and not said["more"]
    model = runs.load(rows_run)
    for key, expected in {
        "cluster": model.predict(ROWS),
        "probability": model.predict_proba(ROWS).max(1),
        "log_density": model.score_samples(ROWS),
        "ood_score": model.ood_score(ROWS),
    }.items():
        np.testing.assert_allclose([row[key] for row in said["rows"]], expected, atol=1e-9)
    assert [row["row"] for row in said["rows"]] == ["row 0", "row 1", "row 2"]


def test_a_table_is_read_as_in_training_whatever_its_file(recwarn):
    frame, _ = customers(60, seed=0)
    tiny = {"step1.iterations": 2, "step2.iterations": 2}
    model = GEDI(2, preset="smoke", training=tiny, random_state=0).fit(frame).model_
    text = frame.to_csv(index=False)
    read = [rows_of(text.encode(code), "customers.csv", model).rows for code in ("utf-8", "utf-16", "latin-1")]
    read.append(rows_of(saved(lambda file: frame.to_excel(file, index=False)), "customers.xlsx", model).rows)
    for rows in read[1:]:
        np.testing.assert_allclose(rows, read[0])


def test_a_row_far_away_is_called_foreign(talk):
    _, said = talk.ask(KINDS["rows.npy"])
    assert said["rows"][2]["familiarity"] == "foreign" and said["rows"][2]["below"] == 0


def test_a_row_is_as_familiar_as_its_log_density_says(talk):
    examples = talk.server.site.examples
    _, said = talk.ask(KINDS["rows.npy"])
    for row in said["rows"]:
        assert row["below"] == pytest.approx((examples.log_density <= row["log_density"]).mean())
    assert "have a higher log density" in files("gedi.explore").joinpath("panel", "panel.js").read_text()


def test_a_run_without_a_density_calls_nothing_typical_or_foreign(serve, talk, tmp_path):
    data = np.random.default_rng(1).normal(size=(50, 2))
    np.save(tmp_path / "rows.npy", data)
    run = GEDI(n_clusters=2, preset="smoke", method="swav", training={"step2.iterations": 3}, random_state=0).fit(data)
    run.save(tmp_path / "run")
    with pytest.raises(DataError, match="--data DATA"), serve(tmp_path / "run"):
        pass
    with serve(tmp_path / "run", str(tmp_path / "rows.npy")) as server:
        _, said = type(talk)(server).ask(KINDS["rows.npy"])
        assert not json.loads(type(talk)(server)(path="about.json")[2])["density"]
    assert all(row.keys().isdisjoint({"familiarity", "log_density", "ood_score"}) for row in said["rows"])


def test_the_nearest_examples_are_the_nearest(rows_run, serve, talk, tmp_path):
    data = np.random.default_rng(1).normal(size=(50, 2))
    np.save(tmp_path / "rows.npy", data)
    model = runs.load(rows_run)
    distances = np.linalg.norm(model.transform(data) - model.transform(ROWS[:1]), axis=1)
    with serve(rows_run, str(tmp_path / "rows.npy")) as server:
        _, said = type(talk)(server).ask(saved(np.save, ROWS[:1]))
    nearest = said["rows"][0]["nearest"]
    np.testing.assert_allclose([distance for _, distance in nearest], np.sort(distances)[:5], atol=1e-7)
    assert [place for place, _ in nearest] == np.argsort(distances)[:5].tolist()


def test_a_row_of_the_examples_is_its_own_nearest(talk, rows_run):
    model = runs.load(rows_run)
    row = model.scaler.inverse(model.chains[:1].numpy(), dtype=np.float64)
    _, said = talk.ask(saved(np.save, row))
    assert said["rows"][0]["nearest"][0][1] < 1e-6


def test_only_the_first_of_many_rows_are_answered(talk, monkeypatch):
    monkeypatch.setattr(uploads, "ROWS_ANSWERED", 30)
    for count, more in ((31, True), (30, False)):
        _, said = talk.ask(saved(np.save, np.zeros((count, 2))))
        assert (len(said["rows"]), said["more"]) == (30, more)


def test_only_the_first_of_many_images_are_sent_back(talk_images, monkeypatch):
    monkeypatch.setattr(site_module, "PICTURES", 2)
    _, said = talk_images.ask(saved(np.save, np.zeros((3, 8, 8, 3), dtype=np.uint8)))
    assert [row["picture"] is None for row in said["rows"]] == [False, False, True]


def test_images_of_another_shape_are_refused(talk_images):
    status, said = talk_images.ask(saved(np.save, np.zeros((2, 4, 16, 3))))
    assert status == 422 and "images of 4x16x3, but the run was trained on images of 8x8x3" in said["error"]


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_is_a_row_of_an_image_run(talk_images, image_run, kind):
    pixels = np.random.default_rng(2).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    body = picture(pixels, kind)
    status, said = talk_images.ask(body, "photo.jpg")
    assert status == 200 and [row["row"] for row in said["rows"]] == ["photo.jpg"]
    row = np.asarray(Image.open(io.BytesIO(body)), dtype=np.float64).reshape(1, -1)
    np.testing.assert_allclose(said["rows"][0]["log_density"], runs.load(image_run).score_samples(row)[0], rtol=1e-6)
    assert said["rows"][0]["picture"].startswith("data:image/png;base64,") and len(said["rows"][0]["nearest"]) == 5


def test_a_picture_of_another_size_and_kind_is_fitted(talk_images):
    status, said = talk_images.ask(picture(np.full((100, 37), 128, dtype=np.uint8)), "grey.png")
    shown = base64.b64decode(said["rows"][0]["picture"].partition(",")[2])
    assert status == 200 and (np.asarray(Image.open(io.BytesIO(shown))) == 128).all()


# ---- files that are not data ----


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (300, 2**20)})
        for _ in range(300):
            member.write(bytes(2**20))
    return file.getvalue()


def lying(shape) -> bytes:
    """An archive whose array claims to be larger than any memory, but holds eight bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": shape})
        member.write(bytes(8))
    return file.getvalue()


def huge_picture(side) -> bytes:
    """A PNG of a few bytes that claims to have ``side`` x ``side`` pixels."""
    body = bytearray(picture(np.zeros((4, 4), dtype=np.uint8)))
    body[16:24] = 2 * side.to_bytes(4, "big")
    body[29:33] = zlib.crc32(body[12:29]).to_bytes(4, "big")
    return bytes(body)


BAD = {
    "empty": (b"", "is empty"),
    "program": (b"\x7fELF\x02\x01\x01" + bytes(50), "cannot be read as data"),
    "pickle": (b"\x80\x04\x95\xff\xfe\0", "cannot be read as data"),
    "prose": (b"Dear Sir,\nI have no data, sadly.\n", "are not numeric"),
    "html": (b"<html><script>alert(1)</script></html>", "is not numeric|no rows"),
    "three columns": (b"1,2,3\n4,5,6\n", "3 features, but the run was trained on 2"),
    "NaN": (b"1,2\n3,\n", "NaN"),
    "broken npy": (saved(np.save, ROWS)[:-5], "NumPy file"),
    "text npy": (saved(np.save, ROWS.astype(str)), "not numbers"),
    "object npy": (saved(np.save, ROWS.astype(object)), "Python objects"),
    "object npz": (saved(np.savez, x=ROWS.astype(object)), "holds objects"),
    "broken npz": (saved(np.savez, x=ROWS)[:-30], "damaged archive"),
    "empty npy": (saved(np.save, np.empty((0, 2))), "empty"),
    "bomb": (bomb(), "bytes unpacked"),
    "as long as it likes": (lying((2**60, 2)), "damaged"),
    "as wide as it likes": (lying((1, 2**60)), "damaged"),
    "picture": (picture(np.zeros((4, 4), dtype=np.uint8)), "trained on rows of 2 features"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_not_data_gets_one_sentence(talk, kind):
    body, expected = BAD[kind]
    status, said = talk.ask(body, "mine.dat")
    assert status == 422 and re.search(expected, said["error"]), said
    assert "\n" not in said["error"] and "/tmp" not in said["error"] and "Traceback" not in said["error"]


def test_a_broken_or_huge_picture_gets_one_sentence(talk_images, monkeypatch):
    whole = picture(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    for body in (whole[: len(whole) // 2], whole[:20]):
        status, said = talk_images.ask(body, "photo.png")
        assert status == 422 and said["error"] == "photo.png cannot be read as a picture: it is damaged."
    for side in (10_000, 100_000):  # the second is refused by Pillow itself
        status, said = talk_images.ask(huge_picture(side), "photo.png")
        assert status == 422 and re.search("100,000,000 pixels|cannot be read", said["error"]), said
    monkeypatch.setattr(uploads, "MOST_PIXELS", 1000)
    status, said = talk_images.ask(whole, "photo.png")
    assert status == 422 and "4,096 pixels" in said["error"]


def test_the_name_of_a_file_is_text(talk):
    _, said = talk.ask(b"", "%3Cb%3E%0A%00%1b[31mx")
    assert said["error"].startswith("<b> ") and said["error"].isprintable()


def test_the_server_leaves_no_files_behind(talk, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    talk.ask(KINDS["rows.npz"])
    talk.ask(BAD["broken npy"][0])
    assert list(tmp_path.iterdir()) == []


def test_files_can_only_be_posted_for_an_answer(talk):
    assert talk("POST", "report.html", b"x")[0] == 404

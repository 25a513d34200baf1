"""moye in the browser: Pyodide in headless Chromium draws layouts, and runs kernels where it has NumPy.

The pages come from a server here, and the browser can reach nothing else.  What Python does for them (docs/browser/
pages.py) is tested without a browser, too.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import sys
import threading
import zipfile
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

import moye as mo
import tools

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LONGEST = 120
"""Seconds for the first answer, on a machine with other work."""


@pytest.fixture(scope="module")
def assets():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(DOCS), str(DOCS / "browser"), *sys.path])
        import pages
        import site_browser

        yield site_browser, pages


# --- what Python does ------------------------------------------------------------------------------------------------


def asked(pages, name, **request):
    return json.loads(pages.answer(name, json.dumps(request)))


def test_notation_is_drawn_with_what_can_be_said_of_it(assets):
    told = asked(assets[1], "draw", x="(4,4):(1,2)")
    assert told["text"] == mo.draw("(4,4):(1,2)").text and told["html"] == mo.draw("(4,4):(1,2)").html
    assert told["facts"]["cosize"] == "10" and "share offset" in told["facts"]["offsets"]
    told = asked(assets[1], "draw", x="(8,8):(8,1)", swizzle="3,0,3", bits="128", banks=True)
    assert told["facts"]["layout"] == "Sw<3,0,3> o 0 o (8,8):(8,1)" and told["facts"]["offsets"] == "all distinct"
    assert told["text"] == mo.draw("(8,8):(8,1)", swizzle="3,0,3", bits=128, banks=True).text
    assert asked(assets[1], "draw", x="", thr="(4,4)", val="(2,1)")["text"] == mo.draw(thr="(4,4)", val="(2,1)").text


def test_python_is_drawn(assets):
    text = "t = mo.make_layout((4, 4))\nmo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), t)"
    assert "TiledCopy" in asked(assets[1], "draw", x=text)["facts"]["drawn"]
    assert "no expression" in asked(assets[1], "draw", x="t = mo.make_layout(4)")["error"]


@pytest.mark.parametrize("request_, words", [
    ({"x": "((2,2),4):((1,8)2)"}, "',' or ')' expected, '2' found"), ({"x": ""}, "no picture of None"),
    ({"x": "(4,4)", "bits": "many"}, "'many' is no number of bits"),
    ({"x": "mo.nothing"}, "has no attribute 'nothing'"), ({"x": "mo.make_layout("}, "SyntaxError"),
    ({"x": "(4,4)", "swizzle": "3,0"}, "is no swizzle")])
def test_what_cannot_be_drawn_is_said(assets, request_, words):
    told = asked(assets[1], "draw", **request_)
    assert set(told) == {"error"} and words in told["error"]


def test_programs_print_and_fail(assets):
    told = asked(assets[1], "run", text=assets[0].kernels()["A race, found"])
    assert told["output"].startswith("C1: staged(0) of block (0, 0, 0)") and "who says" in told["output"]
    told = asked(assets[1], "run", text="print(1)\n1 / 0\n")
    assert told["output"] == "1\n" and told["error"].endswith("ZeroDivisionError: division by zero")
    assert "1 / 0" in told["error"] and "pages.py" not in told["error"]
    assert asked(assets[1], "run", text="import moye as mo\nmo.thread_idx()")["error"].startswith("TraceError: ")


def test_answers_are_judged(assets):
    puzzle = assets[0].puzzles()[1]
    assert asked(assets[1], "check", number=1, text=puzzle["code"])["status"] == "holes"
    assert asked(assets[1], "check", number=1, text=puzzle["solution"].rstrip())["ok"]
    wrong = asked(assets[1], "check", number=1, text="import moye as mo\nlayout = mo.make_layout((4, 8))\n")
    assert not wrong["ok"] and "is asked for" in wrong["text"]


# --- what the site serves --------------------------------------------------------------------------------------------


def test_the_archive_has_the_modules_and_is_the_same_each_time(assets):
    first = assets[0].archive()
    names = set(zipfile.ZipFile(BytesIO(first)).namelist())
    assert {"moye/__init__.py", "moye/pictures/page.js", "moye/puzzles/book/p01_strides.py", "pages.py"} <= names
    assert not any("__pycache__" in name for name in names) and first == assets[0].archive()


def test_without_pyodide_the_pages_load_it_from_its_publisher(assets, monkeypatch, tmp_path):
    site = assets[0]
    monkeypatch.setattr(site, "FETCHED", tmp_path)
    assert site.where() == {"pyodide": site.PUBLISHED, "packages": site.PUBLISHED} and site.fetched() == []
    for name in site.CORE:
        (tmp_path / name).touch()
    assert site.where() == {"pyodide": "pyodide/", "packages": site.PUBLISHED}
    (tmp_path / "numpy-2.whl").touch()
    assert site.where()["packages"] == site.PUBLISHED
    (tmp_path / "ml_dtypes-0.whl").touch()
    assert site.where() == {"pyodide": "pyodide/", "packages": "pyodide/"} and len(site.fetched()) == 7


def test_another_tarball_is_refused(assets, monkeypatch, tmp_path):
    site = assets[0]
    (tmp_path / "npm").write_text("#!/bin/sh\necho other > pyodide.tgz\n")
    (tmp_path / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(site, "FETCHED", tmp_path / "pyodide")
    with pytest.raises(SystemExit, match=r"has the SHA-512 \w+, and 4e462b"):
        list(site.fetch())


def test_a_package_is_what_the_list_says(assets, monkeypatch, tmp_path):
    site = assets[0]
    published, here = tmp_path / "full", tmp_path / "here"
    published.mkdir()
    here.mkdir()
    names = {name: {"file_name": f"{name}-1.whl", "version": "1", "sha256": hashlib.sha256(name.encode()).hexdigest()}
             for name in site.PACKAGES}
    (here / "pyodide-lock.json").write_text(json.dumps({"packages": names}))
    for name in site.CORE[:-1]:
        (here / name).touch()
    monkeypatch.setattr(site, "FETCHED", here)
    monkeypatch.setattr(site, "PUBLISHED", f"{published.as_uri()}/")
    assert "NumPy for Pyodide cannot be had from file:" in " ".join(site.fetch())
    for name in names:
        (published / f"{name}-1.whl").write_text(name)
    assert list(site.fetch()) == [f"{name} 1 for Pyodide: 0 KiB" for name in names] and len(site.wheels()) == len(names)
    assert list(site.fetch()) == []
    (here / "numpy-1.whl").unlink()
    (published / "numpy-1.whl").write_text("another")
    with pytest.raises(SystemExit, match=r"numpy-1.whl has the SHA-256 \w+, and "):
        list(site.fetch())


# --- in the browser --------------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that does not write on the terminal, and keeps the wheel of NumPy to itself while it must."""

    numpy = True

    def do_GET(self):
        if self.numpy or not self.path.endswith(".whl"):
            super().do_GET()
        else:
            self.send_error(404)

    def log_message(self, *_):
        pass


def html_of(page):
    """What a page of docs/ has in HTML, without MkDocs."""
    tags = re.findall(r"^<(?:div|script).*", (DOCS / page).read_text(), re.MULTILINE)
    return "\n".join(['<!DOCTYPE html><meta charset="utf-8">', *tags])


def puzzle_html(puzzle):
    """A section of the page of puzzles, as MkDocs makes it."""
    code = f'<div class="highlight"><pre><code>{puzzle["code"]}</code></pre></div>'
    return f'<h3 id="p{puzzle["number"]}">{puzzle["number"]}. A puzzle</h3><p>Words.</p>{code}'


@pytest.fixture(scope="module")
def site(assets, tmp_path_factory):
    """The address of a folder with the pages and what they load."""
    tools.pyodide()
    folder = tmp_path_factory.mktemp("site")
    for path, content in assets[0].files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "playground.html").write_text(html_of("playground.md"))
    sections = [puzzle_html(puzzle) for puzzle in list(assets[0].puzzles().values())[:7]]
    (folder / "puzzles.html").write_text("\n".join([html_of("puzzles.md"), *sections]))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser, driver = tools.programs("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1200,1400", f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
                     "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
        options.add_argument(argument)
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield session
    session.quit()


@pytest.fixture(scope="module")
def playground(chromium, site):
    """The page, once Python has drawn the first picture."""
    chromium.get(f"{site}/playground.html")
    shown(chromium, lambda: chromium.find_element(By.CLASS_NAME, "moye-picture").is_displayed())
    return chromium


def shown(session, what):
    WebDriverWait(session, LONGEST, ignored_exceptions=[NoSuchElementException]).until(lambda _: what())


def said(session, at=By.CSS_SELECTOR, name="#moye-playground .moye-said"):
    return session.find_element(at, name)


def typed(session, text, **fields):
    """Fill the fields of the playground, and draw."""
    for name in ("swizzle", "thr", "val", "bits"):
        field = session.find_element(By.ID, f"moye-{name}")
        session.execute_script("arguments[0].value = arguments[1]", field, fields.get(name, ""))
    session.execute_script("arguments[0].value = arguments[1]", session.find_element(By.ID, "moye-x"), text)
    button = session.find_element(By.CSS_SELECTOR, "#moye-playground .md-button--primary")
    session.execute_script("arguments[0].click()", button)
    shown(session, button.is_enabled)


def text_of(session):
    return session.find_element(By.CLASS_NAME, "moye-text").get_property("textContent")


@pytest.mark.slow
def test_the_playground_draws(playground):
    first = mo.draw("((2,2),4):((1,8),2)")
    assert text_of(playground) == first.text
    playground.switch_to.frame(playground.find_element(By.CLASS_NAME, "moye-picture"))
    cells = len(playground.find_elements(By.CLASS_NAME, "moye-cell"))
    playground.switch_to.default_content()
    assert cells == 16
    typed(playground, "(8,8):(8,1)", swizzle="3,0,3", bits="128")
    assert text_of(playground) == mo.draw("(8,8):(8,1)", swizzle="3,0,3", bits=128).text
    facts = playground.find_element(By.CLASS_NAME, "moye-facts").text
    assert "Sw<3,0,3> o 0 o (8,8):(8,1)" in facts and "all distinct" in facts
    assert "swizzle=3%2C0%2C3" in playground.current_url


@pytest.mark.slow
def test_the_playground_draws_tiled_copies_and_mmas(playground):
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN, mo.make_layout((2, 1, 1)))
    atom = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN)
    copy = mo.make_tiled_copy_A(mo.CopyAtom(mo.LdMatrix(4), mo.float16), atom)
    choice = Select(playground.find_element(By.ID, "moye-examples"))
    for name, drawn in (("ldmatrix", copy), ("A tiled MMA", mma)):
        choice.select_by_visible_text(name)
        wanted = mo.draw(drawn).text
        shown(playground, lambda wanted=wanted: text_of(playground) == wanted)


@pytest.mark.slow
def test_every_example_of_the_playground_is_drawn(playground):
    choice = Select(playground.find_element(By.ID, "moye-examples"))
    seen = set()
    for option in choice.options:
        choice.select_by_visible_text(option.text)
        shown(playground, playground.find_element(By.CSS_SELECTOR, "#moye-playground .md-button--primary").is_enabled)
        assert not said(playground).is_displayed(), said(playground).text
        seen.add(text_of(playground))
    assert len(seen) == len(choice.options) >= 8


@pytest.mark.slow
def test_the_playground_says_what_is_wrong(playground):
    typed(playground, "((2,2),4):((1,8)2)")
    assert "',' or ')' expected, '2' found" in said(playground).text and said(playground).is_displayed()
    typed(playground, "(2,2)")
    assert not said(playground).is_displayed() and text_of(playground) == mo.draw("(2,2)").text


@pytest.mark.slow
def test_a_program_in_a_link_waits_for_its_reader(playground, site):
    playground.get("about:blank")
    playground.get(f"{site}/playground.html#x=mo.make_layout((3,3))")
    shown(playground, lambda: playground.find_element(By.ID, "moye-x").get_property("value") == "mo.make_layout((3,3))")
    assert not playground.find_element(By.CLASS_NAME, "moye-picture").is_displayed()
    assert playground.find_element(By.CSS_SELECTOR, "#moye-playground .md-button--primary").is_enabled()


def pressed(session, selector, status):
    """Press a button, and what is said then."""
    session.execute_script("arguments[0].click()", session.find_element(By.CSS_SELECTOR, selector))
    shown(session, lambda: said(session, name=status).get_attribute("data-kind") in ("passed", "failed"))
    return said(session, name=status)


@pytest.mark.slow
def test_where_numpy_cannot_be_had_it_is_said(chromium, site, monkeypatch):
    monkeypatch.setattr(Quiet, "numpy", False)
    chromium.get(f"{site}/puzzles.html")
    shown(chromium, lambda: len(chromium.find_elements(By.CLASS_NAME, "moye-open")) == 7)
    chromium.find_element(By.CLASS_NAME, "moye-open").click()
    told = pressed(chromium, "#p1 ~ .moye-row .md-button--primary", ".moye-said")
    assert re.match(r"NumPy could not be loaded from http\S+/, and kernels need it: \S", told.text)


@pytest.mark.slow
def test_the_kernel_of_the_readme_runs_in_the_browser(chromium, site):
    tools.pyodide(numpy=True)
    chromium.get("about:blank")
    chromium.get(f"{site}/playground.html#x=(2,2)")
    shown(chromium, lambda: chromium.find_element(By.ID, "moye-program").get_property("value"))
    assert pressed(chromium, "#moye-run", "#moye-printed").text.startswith("C1: staged(0) of block (0, 0, 0)")


@pytest.mark.slow
def test_the_demo_runs_in_the_browser(chromium, site):
    tools.pyodide(numpy=True)
    chromium.get("about:blank")
    chromium.get(f"{site}/playground.html#x=(2,2)")
    shown(chromium, lambda: chromium.find_element(By.ID, "moye-program").get_property("value"))
    Select(chromium.find_element(By.ID, "moye-kernels")).select_by_index(1)
    told = pressed(chromium, "#moye-run", "#moye-printed").text
    assert "C (128x128) = A (128x32)" in told and "shared-memory races" in told and "no violation" in told


@pytest.mark.slow
def test_puzzles_are_judged_in_the_browser(chromium, site):
    tools.pyodide(numpy=True)
    chromium.get(f"{site}/puzzles.html")
    shown(chromium, lambda: len(chromium.find_elements(By.CLASS_NAME, "moye-open")) == 7)
    chromium.find_elements(By.CLASS_NAME, "moye-open")[5].click()
    assert pressed(chromium, "#p6 ~ .moye-row .md-button--primary", ".moye-said").text.startswith("holes")
    chromium.find_element(By.XPATH, "//button[text()='Solution']").click()
    assert pressed(chromium, "#p6 ~ .moye-row .md-button--primary", ".moye-said").text.startswith("passed")
    assert "moye-solved" in chromium.find_element(By.ID, "p6").get_attribute("class")


@pytest.mark.slow
def test_arrays_begin_at_multiples_of_16_bytes_in_the_browser(chromium, site):
    tools.pyodide(numpy=True)
    chromium.get("about:blank")
    chromium.get(f"{site}/playground.html#x=(2,2)")
    shown(chromium, lambda: chromium.find_element(By.ID, "moye-program").get_property("value"))
    text = ("import numpy as np\nx = [make(n, np.float32) for n in range(1, 200) for make in (np.empty, np.zeros)]\n"
            "y = np.ones(5)\ny.resize(1000, refcheck=False)\n"
            "print({a.ctypes.data % 16 for a in [*x, y]}, any(a.any() for a in x[1::2]), y.sum())")
    chromium.execute_script("arguments[0].value = arguments[1]", chromium.find_element(By.ID, "moye-program"), text)
    assert pressed(chromium, "#moye-run", "#moye-printed").text == "{0} False 5.0"

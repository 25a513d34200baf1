"""The HTML page in headless Chromium, driven by real mouse events: the tooltip, and exactly which cells are marked."""

from __future__ import annotations

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

import moye as mo
from moye.layout import Layout
from picture_cases import CASES, MMA, TF32_16x8x8
from tools import programs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser, driver = programs("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1400,1000", f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
                     "--host-resolver-rules=MAP * ~NOTFOUND"):          # the page must not want the network
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    yield session
    session.quit()


class Page:
    """A picture's page in the browser; cells are named by panel and coordinate."""

    def __init__(self, session, picture, path):
        self.session, self.sheet = session, picture.sheet
        session.get(picture.save(path).as_uri())

    def hover(self, panel, coordinate):
        cell = self.session.find_element(
            By.CSS_SELECTOR, f'.moye-cell[data-panel="{panel}"][data-coordinate="{coordinate}"] rect')
        ActionChains(self.session).move_to_element(cell).perform()

    def leave(self):
        ActionChains(self.session).move_to_element(self.session.find_element(By.CLASS_NAME, "key")).perform()

    def tooltip(self):
        """The facts told, or None where no tooltip is to be seen."""
        shown = self.session.find_element(By.ID, "tooltip")
        if not shown.is_displayed():
            return None
        names, facts = (shown.find_elements(By.TAG_NAME, tag) for tag in ("dt", "dd"))
        return {name.text: fact.text for name, fact in zip(names, facts, strict=True)}

    def marked(self, mark):
        """The (panel, coordinate) of the cells with a mark: here, same-thread, same-offset or same-bank."""
        found = self.session.find_elements(By.CSS_SELECTOR, f".moye-cell.{mark}")
        return {(int(cell.get_attribute("data-panel")), cell.get_attribute("data-coordinate")) for cell in found}

    def expected(self, here, attribute):
        """The other cells that share a thread, an offset or a bank, from the picture itself."""
        def of(cell):
            fact = getattr(cell, attribute)
            return set(fact) if isinstance(fact, tuple) else set() if fact is None else {fact}
        cells = {(i, cell.coordinate): of(cell) for i, panel in enumerate(self.sheet.panels) for cell in panel.cells}
        return {name for name, shared in cells.items() if shared & cells[here] and name != here}

    def errors(self):
        return [entry for entry in self.session.get_log("browser") if "favicon" not in entry["message"]]


@pytest.fixture
def page(chromium, tmp_path):
    def opened(picture):
        return Page(chromium, picture, tmp_path / "picture.html")
    return opened


def test_hovering_over_a_tensor_core_operation(page):
    """Lane 6 of m16n8k8: PTX ISA says which elements of A, B and C it holds."""
    shown = page(mo.draw(TF32_16x8x8))
    assert shown.tooltip() is None
    shown.hover(2, "(1,4)")
    assert shown.tooltip() == {"coordinate": "(1,4)", "index": "65", "thread": "6", "value": "0"}
    assert shown.marked("here") == {(2, "(1,4)")}
    assert shown.marked("same-thread") == {
        (0, "(1,2)"), (0, "(1,6)"),                                                      # B (n,k)
        (1, "(1,2)"), (1, "(9,2)"), (1, "(1,6)"), (1, "(9,6)"),                          # A (m,k)
        (2, "(1,5)"), (2, "(9,4)"), (2, "(9,5)")}                                        # C (m,n)
    assert shown.marked("same-offset") == shown.marked("same-bank") == set()
    assert shown.errors() == []


def test_hovering_over_a_shared_element_marks_the_cells_of_all_its_threads(page):
    shown = page(mo.draw(MMA))
    shown.hover(1, "(1,0)")                                                              # A: row 1
    assert shown.tooltip() == {"coordinate": "(1,0)", "index": "1", "thread": "1, 3, 5, 7", "value": "0"}
    assert shown.marked("same-thread") == {(2, "(1,0)"), (2, "(1,1)"), (2, "(1,2)"), (2, "(1,3)"),
                                           (0, "(0,0)"), (0, "(1,0)"), (0, "(2,0)"), (0, "(3,0)")}
    shown.hover(2, "(1,2)")                                                              # C: thread 5 alone
    assert shown.tooltip()["thread"] == "5"
    assert shown.marked("same-thread") == {(1, "(1,0)"), (0, "(2,0)")}


def test_hovering_over_a_bank_map(page):
    shown = page(mo.draw(Layout((4, 4), (32, 1)), banks=True, bits=32))
    shown.hover(0, "(2,3)")
    assert shown.tooltip() == {"coordinate": "(2,3)", "index": "14", "offset": "67", "bank": "3"}
    assert shown.marked("same-bank") == {(0, "(0,3)"), (0, "(1,3)"), (0, "(3,3)")}
    assert shown.marked("same-thread") == shown.marked("same-offset") == set()


def test_hovering_over_equal_offsets(page):
    shown = page(mo.draw("(2,3,2):(0,1,1)"))
    shown.hover(0, "(0,1,0)")
    assert shown.tooltip() == {"coordinate": "(0,1,0)", "index": "2", "offset": "1"}
    assert shown.marked("same-offset") == {(0, "(1,1,0)"), (1, "(0,0,1)"), (1, "(1,0,1)")}


def test_a_partition_tells_everything_it_knows(page):
    shown = page(mo.draw(Layout((8, 4), (16, 1)), thr="(4,2)", val="(2,1)", bits=32))
    shown.hover(0, "(5,1)")
    assert shown.tooltip() == {"coordinate": "(5,1)", "index": "13", "offset": "81", "thread": "6", "value": "1",
                               "bank": "17"}
    assert shown.marked("same-thread") == shown.expected((0, "(5,1)"), "threads") != set()
    assert shown.marked("same-bank") == {(0, "(1,1)"), (0, "(3,1)"), (0, "(7,1)")}


@pytest.mark.parametrize("name", ["layout", "slices", "swizzled", "banks", "partition", "tiled_copy", "tiled_mma"])
def test_every_kind_of_picture_marks_exactly_the_partners(page, name):
    picture = CASES[name]()
    shown = page(picture)
    for panel, cell in ((i, panel.cells[-1]) for i, panel in enumerate(picture.sheet.panels)):
        shown.hover(panel, cell.coordinate)
        assert shown.tooltip() == dict(cell.facts())
        for mark, attribute in (("same-thread", "threads"), ("same-offset", "offset"), ("same-bank", "bank")):
            assert shown.marked(mark) == shown.expected((panel, cell.coordinate), attribute), mark
    assert shown.errors() == []


def test_the_tooltip_follows_moves_and_goes(page):
    shown = page(mo.draw("(4,4)"))
    shown.hover(0, "(0,0)")
    first = shown.session.find_element(By.ID, "tooltip").rect
    shown.hover(0, "(3,3)")
    assert shown.session.find_element(By.ID, "tooltip").rect["y"] > first["y"]
    assert shown.marked("here") == {(0, "(3,3)")}
    shown.leave()
    assert shown.tooltip() is None
    assert shown.marked("here") == set()
    assert not shown.session.find_elements(By.CSS_SELECTOR, "figure.hovering")


def test_the_tooltip_stays_inside_the_window(page):
    shown = page(mo.draw("(40,60)"))
    for coordinate in ("(0,59)", "(39,0)", "(39,59)"):
        shown.hover(0, coordinate)
        box = shown.session.find_element(By.ID, "tooltip").rect
        x, y, width, height = shown.session.execute_script(
            "return [window.scrollX, window.scrollY, window.innerWidth, window.innerHeight]")
        assert x <= box["x"] and box["x"] + box["width"] <= x + width
        assert y <= box["y"] and box["y"] + box["height"] <= y + height


def test_partners_can_be_seen(page):
    """Marks change what is painted: others fade, partners have a thick edge."""
    shown = page(mo.draw("(2,2):(0,1)"))
    shown.hover(0, "(0,0)")
    def style(coordinate, child, name):
        cell = shown.session.find_element(By.CSS_SELECTOR, f'.moye-cell[data-coordinate="{coordinate}"] {child}')
        return cell.value_of_css_property(name)
    assert style("(1,0)", "rect", "stroke-width") == "2.5px"
    assert style("(0,1)", "rect", "stroke-width") == "0.5px"
    cells = {c.get_attribute("data-coordinate"): c.value_of_css_property("opacity")
             for c in shown.session.find_elements(By.CSS_SELECTOR, ".moye-cell")}
    assert cells == {"(0,0)": "1", "(1,0)": "1", "(0,1)": "0.3", "(1,1)": "0.3"}


def test_the_key_names_only_what_the_picture_has(page):
    def key(picture):
        return [item.text for item in page(picture).session.find_elements(By.CSS_SELECTOR, ".key li")]
    assert key(mo.draw("(2,2)")) == ["same offset"]
    assert key(CASES["tiled_copy"]()) == ["same thread"]
    assert key(CASES["partition"]()) == ["same thread", "same offset", "same bank"]


def test_titles_are_text_not_markup(page):
    shown = page(mo.draw("(1,1)", title="<script>document.title = 'broken'</script><b>x</b>"))
    assert shown.session.title == "<script>document.title = 'broken'</script><b>x</b>"


def test_labels_fit_into_their_cells_in_a_real_browser(page):
    shown = page(mo.draw(TF32_16x8x8))
    outside = shown.session.execute_script("""
        return [...document.querySelectorAll(".moye-cell")].filter((cell) => {
          const box = cell.querySelector("rect").getBBox();
          return [...cell.querySelectorAll("text")].some((text) => {
            const words = text.getBBox();
            return words.x < box.x || words.x + words.width > box.x + box.width
                || words.y < box.y || words.y + words.height > box.y + box.height;
          });
        }).length""")
    assert outside == 0


@pytest.mark.slow
def test_an_svg_file_is_drawn_by_itself(chromium, tmp_path):
    chromium.get(CASES["layout"]().save(tmp_path / "layout.svg").as_uri())
    assert len(chromium.find_elements(By.CSS_SELECTOR, "g rect")) == 16
    assert chromium.execute_script("return document.documentElement.namespaceURI") == "http://www.w3.org/2000/svg"

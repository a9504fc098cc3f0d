"""
The example programs do what they say.
"""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
SVG = "{http://www.w3.org/2000/svg}"
TALKS = ROOT / "examples" / "travel_desk.jsonl"


def run(*arguments):
    """
    What a program prints.
    """
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        check=True,
        cwd=ROOT,
        text=True,
    ).stdout


class TestDrawView:
    def test_draws(self):
        """
        A bar for each message in each of four views, and none of its words.
        """
        picture = run("examples/draw_view.py", TALKS)
        root = ET.fromstring(picture)
        titles = [title.text for title in root.iter(f"{SVG}title")]
        heads = [text.text or "" for text in root.iter(f"{SVG}text")]
        count = int(heads[0].split(": ")[1].split()[0])

        assert "all that was said" in heads[0]
        assert set(range(count)) == {int(str(t).split(":")[0]) for t in titles}
        assert 4 * count <= len(titles)
        assert "Hamburg" not in picture

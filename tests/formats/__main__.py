"""Write what comes of the cases of formats anew: ``python -m tests.formats NAME …``."""

import sys
from pathlib import Path

from tests.formats.cases import FORMATS, write

for name in sys.argv[1:] or FORMATS:
    for path in Path(__file__).parent.glob(f"{name}*.jsonl"):
        if path.name.split(".")[0] == name:
            write(path)

"""
``python -m conversation_state.testing my_package:make_store``: a table of what was
checked.
"""

from __future__ import annotations

import importlib.util
import sys

from conversation_state.errors import MissingExtraError

if __name__ == "__main__":
    # Looked for instead of imported: an ImportError may be one of Hypothesis' own.
    if importlib.util.find_spec("hypothesis") is None:
        sys.stderr.write(f"{MissingExtraError('checking laws', 'testing')}\n")
        sys.exit(2)

    from conversation_state.testing._command import main

    sys.exit(main())

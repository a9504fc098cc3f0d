"""
A capability that trims what is sent, and leaves the history alone.

Only here, and in `_backend`, classes of the SDK are bases: these modules need
it when they are imported, and are, when something of them is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai._utils import run_in_executor
from pydantic_ai.capabilities import AbstractCapability

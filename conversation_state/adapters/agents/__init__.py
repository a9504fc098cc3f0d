"""
The OpenAI Agents SDK: a store as its sessions (extra ``agents``).
"""

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters.agents._items import dump, load
from conversation_state.adapters.agents._session import StoreSession

__all__ = ["Export", "Lost", "StoreSession", "dump", "load"]

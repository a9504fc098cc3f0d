"""
Names of hosts that are imported when they are first used.
"""

from types import SimpleNamespace

import pytest

from conversation_state.adapters import _host
from conversation_state.errors import MissingExtraError

get = _host.import_lazily(
    "package", {"Session": "_session"}, extra="agents", needs={"agents", "openai"}
)


def fail_with(error):
    """
    What imports nothing, for *error*.
    """

    def fail(_):
        raise error

    return fail


class TestImportLazily:
    def test_name(self, monkeypatch):
        """
        A name is that of its module.
        """
        modules = {"package._session": SimpleNamespace(Session="the class")}
        monkeypatch.setattr(_host, "import_module", modules.__getitem__)

        assert "the class" == get("Session")

    def test_unknown_name(self):
        """
        Another name is not an attribute.
        """
        with pytest.raises(AttributeError, match="'package' has no attribute 'Other'"):
            get("Other")

    @pytest.mark.parametrize("missing", ["agents", "openai.types"])
    def test_missing_host(self, monkeypatch, missing):
        """
        Where the host is not installed, the error says which extra brings it.
        """
        error = ModuleNotFoundError("missing", name=missing)
        monkeypatch.setattr(_host, "import_module", fail_with(error))

        with pytest.raises(MissingExtraError, match=r"conversation-state\[agents\]"):
            get("Session")

    @pytest.mark.parametrize("missing", ["httpx", "agentsmith", None])
    def test_another_module(self, monkeypatch, missing):
        """
        Another module that is missing is no matter of the extra.
        """
        error = ModuleNotFoundError("missing", name=missing)
        monkeypatch.setattr(_host, "import_module", fail_with(error))

        with pytest.raises(ModuleNotFoundError) as raised:
            get("Session")

        assert error is raised.value

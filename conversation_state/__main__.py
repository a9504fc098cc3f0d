"""``python -m conversation_state``: the command `conversation-state`."""

from conversation_state.cli.main import main

if __name__ == "__main__":
    main()

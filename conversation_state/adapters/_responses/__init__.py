"""
Items of OpenAI's Responses: what `openai_responses` and `agents` share.

What lives here: reading and writing items, answers and events. What does not:
the description of the notes and of what is lost (see `openai_responses`); sessions
(`agents`).
"""

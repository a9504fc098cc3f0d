"""
Items of OpenAI's Responses: what `openai_responses` and `agents` share.

What lives here: reading and writing items, answers and events. What does not:
what is noted and what is lost (see `openai_responses`); sessions
(`agents`).
"""

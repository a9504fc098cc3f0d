"""Where each rule is from: rows that a part of ``docs/providers.md`` is made of."""

from __future__ import annotations

from typing import NamedTuple

from conversation_state._persistent import final


@final
class Rule(NamedTuple):
    """
    One rule of a request.

    Attributes:
        format: The adapter's name; "" if all formats have the rule.
        host: Who refuses what breaks it; "" if all hosts do.
        name: The attribute of `Rules`, or the name of the rule.
        says: What is asked.
        does: What ``dump`` does to what breaks it.
        source: A URL, and the words of the error where they are known.
    """

    format: str
    host: str
    name: str
    says: str
    does: str
    source: str


SOURCES: tuple[Rule, ...] = (
    Rule(
        format="",
        host="",
        name="results",
        says="Each result stands directly behind its call, once; each call that something follows has one.",
        does="Late results move up; an error stands for one that does not exist; others are left out.",
        source="https://github.com/openai/openai-agents-python/issues/673, https://github.com/anthropics/claude-code/issues/8210, https://github.com/google-gemini/gemini-cli/issues/16984",
    ),
    Rule(
        format="",
        host="",
        name="call_ids",
        says="No two calls of a request have one id.",
        does="The later one gets another, with its result; the same call again is left out.",
        source="https://github.com/anthropics/claude-code/issues/20901, https://github.com/BerriAI/litellm/issues/23510",
    ),
    Rule(
        format="",
        host="",
        name="is_request",
        says="At least one message is a user's or a result.",
        does="A made message stands where none is left.",
        source="https://docs.claude.com/en/api/messages, https://ai.google.dev/api/generate-content",
    ),
    Rule(
        format="",
        host="",
        name="image_types",
        says="Images by value are PNG, JPEG, WebP or GIF; for Gemini HEIC or HEIF instead of GIF. For Anthropic their bytes are of the stated type, at most 5 MB and 8,000 pixels a side, 2,000 among more than twenty.",
        does="What is only named wrong gets its media type; other images are left out, but for vLLM, if named.",
        source="https://platform.openai.com/docs/guides/images-vision, https://docs.claude.com/en/docs/build-with-claude/vision, https://ai.google.dev/gemini-api/docs/image-understanding, https://github.com/NousResearch/hermes-agent/issues/55432, https://github.com/vybestack/llxprt-code/issues/2130, https://github.com/anthropics/claude-code/issues/49537",
    ),
    Rule(
        format="anthropic",
        host="anthropic, bedrock, vertex",
        name="model",
        says="Thinking was signed by the model that is asked.",
        does="That of other models is left out: Claude's where the model is named, others' where the host is.",
        source="https://github.com/vybestack/llxprt-code/issues/2335, https://github.com/ding113/claude-code-hub/issues/518, https://github.com/anthropics/anthropic-sdk-python/issues/1598",
    ),
    Rule(
        format="openai_chat",
        host="azure, copilot, openrouter",
        name="call_ids",
        says="A call's id has at most 40 characters.",
        does="A longer id ends in a digest of it.",
        source="https://github.com/BerriAI/litellm/issues/17343",
    ),
    Rule(
        format="openai_chat",
        host="mistral",
        name="call_ids",
        says="A call's id has exactly nine letters and digits.",
        does="Each id becomes a digest of nine characters, if named.",
        source="https://github.com/nearai/ironclaw/issues/1241",
    ),
    Rule(
        format="openai_chat",
        host="mistral",
        name="answers_results",
        says="No user's message stands directly behind results.",
        does="A made answer goes between, if named.",
        source="https://github.com/NousResearch/hermes-agent/issues/20154",
    ),
    Rule(
        format="openai_chat",
        host="cerebras, groq, mistral",
        name="message_keys",
        says="A message has no key that is not in the reference: no thoughts of another host, no name at Mistral.",
        does="Other keys are left out, if named.",
        source="https://github.com/charmbracelet/crush/issues/1590, https://github.com/janhq/jan/issues/8136, https://github.com/QwenLM/qwen-code/issues/11045, https://github.com/zeroclaw-labs/zeroclaw/issues/2693",
    ),
    Rule(
        format="openai_chat",
        host="perplexity, vllm",
        name="starts_with_user",
        says="The first message is a user's.",
        does="A made message goes before an assistant's.",
        source="https://github.com/microsoft/autogen/issues/3597, https://github.com/charmbracelet/crush/issues/279",
    ),
    Rule(
        format="openai_chat",
        host="perplexity, vllm",
        name="late_system",
        says="System messages come first.",
        does="A later system message moves to the top, if named.",
        source="https://github.com/pipecat-ai/pipecat/pull/4009, https://github.com/vllm-project/vllm/issues/6862",
    ),
    Rule(
        format="openai_chat",
        host="perplexity, vllm",
        name="alternates",
        says="Users or results, and answers, take turns.",
        does="A made answer goes between users, and a made message between answers, if named.",
        source="https://github.com/perplexityai/api-discussion/issues/265, https://github.com/vllm-project/vllm/issues/6862",
    ),
    Rule(
        format="openai_chat",
        host="mistral, perplexity",
        name="ends_with_user",
        says="A user's message or a result comes last.",
        does="A made message follows an answer, if named.",
        source="https://github.com/pipecat-ai/pipecat/pull/4009, https://github.com/0xPlaygrounds/rig/pull/1130",
    ),
    Rule(
        format="openai_chat",
        host="cerebras, deepseek, groq, mistral, perplexity, vllm",
        name="takes_developer",
        says="No message is a developer's.",
        does="It becomes the system's, if named.",
        source="https://github.com/earendil-works/pi/issues/1048",
    ),
    Rule(
        format="openai_chat",
        host="deepseek",
        name="empty_reasoning",
        says="Each answer has reasoning_content; Kimi's and MiMo's, too.",
        does="An answer that lacks it gets an empty one, if named.",
        source="https://github.com/NousResearch/hermes-agent/issues/15213, https://github.com/earendil-works/pi/issues/4179, https://github.com/earendil-works/pi/issues/4507",
    ),
    Rule(
        format="openai_chat",
        host="",
        name="call_names",
        says="A tool's name has 1 to 64 letters, digits, _ and -.",
        does="Other characters become _.",
        source="https://github.com/mcp-use/mcp-use/issues/90, https://github.com/microsoft/semantic-kernel/issues/4447",
    ),
    Rule(
        format="openai_chat",
        host="vllm",
        name="takes_any_arguments",
        says="The arguments of a call are a JSON object, for llama.cpp and Ollama, too.",
        does='Broken ones are sent as `{"INVALID_JSON": text}`, and none as `{}`.',
        source="https://github.com/vllm-project/vllm/issues/47761, https://github.com/ggml-org/llama.cpp/issues/22072, https://github.com/ollama/ollama/issues/15647",
    ),
    Rule(
        format="openai_chat",
        host="",
        name="takes_empty",
        says="An answer has a text, a refusal or calls.",
        does="An empty one is left out.",
        source="https://platform.openai.com/docs/api-reference/chat/create",
    ),
    Rule(
        format="openai_chat",
        host="cerebras, deepseek, groq",
        name="text_roles",
        says="Content is a text where it has no media; a result's is elsewhere, too.",
        does="Several texts become lines of one.",
        source="https://github.com/tailcallhq/forgecode/issues/2008, https://github.com/CherryHQ/cherry-studio/issues/3307, https://github.com/strands-agents/harness-sdk/pull/1878",
    ),
    Rule(
        format="openai_chat",
        host="azure, openai",
        name="files",
        says="Files by value are PDFs, sounds WAV or MP3.",
        does="A text file's text is sent; others are left out.",
        source="https://github.com/vercel/ai/issues/7266",
    ),
    Rule(
        format="openai_chat",
        host="azure, openai, openrouter",
        name="max_markers",
        says="At most four blocks have cache_control; OpenAI's, none.",
        does="The newest four keep it.",
        source="https://openrouter.ai/docs/features/prompt-caching, https://github.com/BerriAI/litellm/pull/37628",
    ),
    Rule(
        format="openai_responses",
        host="",
        name="call_ids",
        says="A call's id has at most 64 characters.",
        does="A longer id ends in a digest of it.",
        source="https://github.com/AnswerDotAI/fastllm/issues/45",
    ),
    Rule(
        format="openai_responses",
        host="",
        name="call_names",
        says="A tool's name has 1 to 64 letters, digits, _ and -.",
        does="Other characters become _.",
        source="https://platform.openai.com/docs/api-reference/responses/create",
    ),
    Rule(
        format="openai_responses",
        host="vllm",
        name="takes_any_arguments",
        says="The arguments of a call are a JSON object.",
        does="As in Chat Completions.",
        source="https://github.com/vllm-project/vllm/issues/55495",
    ),
    Rule(
        format="openai_responses",
        host="",
        name="takes_thinking_only",
        says="Reasoning has the item that it led to behind it.",
        does="Reasoning that nothing follows is left out.",
        source="https://github.com/continuedev/continue/issues/8933",
    ),
    Rule(
        format="openai_responses",
        host="",
        name="items",
        says="Items that are known by an id alone were stored, and occur once.",
        does="Else reasoning is left out, and the id of other items.",
        source="https://github.com/vercel/ai/issues/7543, https://github.com/vercel/ai/issues/7883",
    ),
    Rule(
        format="openai_responses",
        host="azure, openai",
        name="takes_foreign_items",
        says="Ids of items begin with fc, msg or rs; reasoning is OpenAI's, without content; GPT-4 takes none.",
        does="Others are left out, if named.",
        source="https://github.com/openai/openai-agents-python/issues/569, https://github.com/openai/codex/issues/33176, https://github.com/can1357/oh-my-pi/issues/10060, https://github.com/Gentleman-Programming/gentle-ai/issues/4595",
    ),
    Rule(
        format="anthropic",
        host="",
        name="call_ids",
        says="A call's id has only letters, digits, _ and -.",
        does="Other characters become _.",
        source="https://github.com/maximhq/bifrost/issues/5097",
    ),
    Rule(
        format="anthropic",
        host="bedrock, vertex",
        name="call_names",
        says="A tool's name has 1 to 64 letters, digits, _ and -; Anthropic itself takes 128.",
        does="Other characters become _; a longer name ends in a digest.",
        source="https://github.com/apify/tester-mcp-client/issues/11",
    ),
    Rule(
        format="anthropic",
        host="bedrock",
        name="starts_with_user",
        says="The first message is a user's.",
        does="A made message goes before an assistant's.",
        source="https://github.com/anthropics/anthropic-sdk-typescript/issues/622",
    ),
    Rule(
        format="anthropic",
        host="bedrock",
        name="ends_with_user",
        says="A user's message or a result comes last; for Claude 4.6 and later everywhere.",
        does="A made message follows an answer, if named.",
        source="https://github.com/vybestack/llxprt-code/pull/3695",
    ),
    Rule(
        format="anthropic",
        host="",
        name="trailing_space",
        says="No answer at the end ends in white space.",
        does="That is left out.",
        source="https://github.com/tailcallhq/forgecode/issues/1872",
    ),
    Rule(
        format="anthropic",
        host="bedrock, vertex",
        name="late_system",
        says="System messages come first before Claude 5.1; before Opus 4.8 everywhere.",
        does="A later system message moves to the top.",
        source="https://github.com/anthropics/claude-code/issues/61412, https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html",
    ),
    Rule(
        format="anthropic",
        host="bedrock, vertex",
        name="takes_urls",
        says="Media are sent by value.",
        does="A URL is left out, if named.",
        source="https://github.com/braintrustdata/lingua/pull/160, https://github.com/anthropics/anthropic-sdk-typescript/issues/1038",
    ),
    Rule(
        format="anthropic",
        host="",
        name="takes_blank",
        says="A text is more than white space.",
        does="A blank text is left out.",
        source="https://github.com/anthropics/claude-code/issues/59812, https://github.com/LibreChat-AI/agents/pull/124",
    ),
    Rule(
        format="anthropic",
        host="",
        name="takes_thinking_only",
        says="An answer does not end in thinking.",
        does="Thinking that nothing follows is left out.",
        source="https://github.com/tailcallhq/forgecode/issues/2107",
    ),
    Rule(
        format="anthropic",
        host="",
        name="server_tools",
        says="Its own tools' calls have results and its ids; where code waits, the request names the container.",
        does="Others are left out; `container` is in the payload.",
        source="https://github.com/ding113/claude-code-hub/issues/470, https://github.com/anthropics/anthropic-sdk-python/pull/1150",
    ),
    Rule(
        format="anthropic",
        host="",
        name="citations",
        says="All documents are cited, or none.",
        does="One lets all be cited.",
        source="https://docs.claude.com/en/docs/build-with-claude/citations",
    ),
    Rule(
        format="anthropic",
        host="",
        name="max_markers",
        says="At most four blocks have cache_control, none of them thinking; 1h is not behind 5m.",
        does="The newest four keep it; a 1h marker behind a 5m one becomes 5m.",
        source="https://github.com/tghamm/Anthropic.SDK/issues/50",
    ),
    Rule(
        format="gemini",
        host="",
        name="call_names",
        says="A tool's name begins with a letter or _; then letters, digits, _, ., : and -; at most 64.",
        does="Other characters become _.",
        source="https://github.com/google-gemini/gemini-cli/issues/9535",
    ),
    Rule(
        format="gemini",
        host="vertex",
        name="takes_call_ids",
        says="Calls and results have no ids.",
        does="Ids are left out, if named.",
        source="https://github.com/vercel/ai/issues/15664, https://github.com/pydantic/pydantic-ai/issues/5081",
    ),
    Rule(
        format="gemini",
        host="vertex",
        name="starts_with_user",
        says="The first message is a user's.",
        does="A made message goes before the model's.",
        source="https://ai.google.dev/api/generate-content",
    ),
    Rule(
        format="gemini",
        host="vertex",
        name="ends_with_user",
        says="A user's message or a result comes last.",
        does="A made message follows an answer, if named.",
        source="https://github.com/crewAIInc/crewAI/pull/6973",
    ),
    Rule(
        format="gemini",
        host="vertex",
        name="takes_empty",
        says="No text is empty, unless it has a signature.",
        does="An empty text is left out, and a turn of nothing else.",
        source="https://github.com/FoundationAgents/OpenManus/pull/876",
    ),
)

from conversation_state.adapters.pydantic_ai._dump import dump
from conversation_state.adapters.pydantic_ai._load import load
from conversation_state.adapters.pydantic_ai._usage import load_usage

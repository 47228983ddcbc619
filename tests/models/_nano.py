"""A small random policy and plain conversations, shared by the engine tests."""

from __future__ import annotations

from typing import Any

from meta_agent.core.protocols import GenerateRequest, Message


def model(seed: int = 0, scale: float = 8.0) -> Any:
    """Random weights, large enough that the next token is not uniform."""
    import torch

    from meta_agent.policies.engines.nano_files import new_nano_model

    made = new_nano_model(seed).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
    return made


def request(key: str, *texts: str, **changes: Any) -> GenerateRequest:
    """Alternating user and assistant messages; the first is the user's."""
    messages: list[Message] = [
        {"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)
    ]
    values: dict[str, Any] = {
        "key": key,
        "task_key": "t",
        "sample_idx": 0,
        "seed": 7,
        "turn": len(texts) // 2,
        "messages": messages,
        "max_tokens": 6,
        "temperature": 1.0,
    }
    return GenerateRequest(**(values | changes))

"""Prints an answer of a Python package as it arrives, for bench's publication: bench_python.py openai|litellm BASE_URL"""

import sys


def openai(base):
    import openai

    return openai.OpenAI(base_url=base, api_key="none").responses.create(model="gpt-6.1-sol", input="Hello", stream=True)


def litellm(base):
    import litellm

    return litellm.responses(model="openai/gpt-6.1-sol", input="Hello", stream=True, api_base=base, api_key="none")


for event in {"openai": openai, "litellm": litellm}[sys.argv[1]](sys.argv[2]):
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)

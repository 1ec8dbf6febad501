"""litellm's chatgpt/ provider against `chappie simulator`. Its sign-in has fixed addresses, so it gets the tokens of one of
chappie's. It sends tools and instructions at the top level and names no version, which the service may or may not go on to
accept: the simulator is told to."""

import json

import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.slow]


@pytest.fixture
def litellm(simulate, signed_in, monkeypatch, tmp_path):
    simulator = simulate(lenient=True)
    signed_in(simulator).run("auth", "export", str(tmp_path / "export"))
    (tmp_path / "auth.json").write_text(json.dumps(json.loads((tmp_path / "export").read_text())["tokens"]))
    for name, value in {
        "CHATGPT_TOKEN_DIR": str(tmp_path), "CHATGPT_API_BASE": simulator.backend + "/codex",
        # Both are read when litellm is imported: no list of prices from the network, no notices.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR",
    }.items():
        monkeypatch.setenv(name, value)
    litellm = pytest.importorskip("litellm", reason="litellm is not installed")
    litellm.telemetry = False
    return litellm


@pytest.mark.filterwarnings("ignore")
def test_litellm_streams_and_takes_answers(litellm):
    ask = lambda text, **options: litellm.completion(
        model="chatgpt/gpt-6.1-sol", messages=[{"role": "user", "content": text}], num_retries=0, timeout=60, **options)
    chunks = ask("good evening from litellm", stream=True)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert "good evening from litellm" in "".join(pieces) and len(pieces) > 3, pieces
    assert "a whole answer" in ask("a whole answer").choices[0].message.content
    events = list(litellm.responses(model="chatgpt/gpt-6.1-sol", input="good evening from responses", stream=True))
    kinds = [str(getattr(event.type, "value", event.type)) for event in events]
    assert kinds[-1] == "response.completed", kinds
    text = "".join(event.delta for event, kind in zip(events, kinds) if kind == "response.output_text.delta")
    assert "good evening from responses" in text

"""litellm's chatgpt/ provider against `chappie simulator`: conformance_litellm.py CHAPPIE

Its sign-in has fixed addresses, so the tokens are fetched here and laid where it looks for them.
"""

import json
import os
import sys
import tempfile
import warnings

from simulator import Simulator, Tally

# Both are read when litellm is imported: no list of prices from the network, no notices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_LOG"] = "ERROR"
warnings.simplefilter("ignore")


class Client:
    def __init__(self, simulator, home):
        tokens = simulator.sign_in()
        with open(os.path.join(home, "auth.json"), "w", encoding="utf-8") as stream:
            json.dump({key: tokens[key] for key in ("access_token", "refresh_token", "id_token")}, stream)
        os.environ["CHATGPT_TOKEN_DIR"] = home
        os.environ["CHATGPT_API_BASE"] = simulator.backend + "/codex"
        import litellm

        litellm.telemetry = False
        self.litellm = litellm

    def ask(self, text, **options):
        return self.litellm.completion(
            model="chatgpt/gpt-5.5", messages=[{"role": "user", "content": text}], num_retries=0, timeout=60, **options
        )

    def streams(self):
        pieces = [
            chunk.choices[0].delta.content
            for chunk in self.ask("good evening from litellm", stream=True)
            if chunk.choices and chunk.choices[0].delta.content
        ]
        assert "good evening from litellm" in "".join(pieces), pieces
        assert len(pieces) > 3, f"the answer came in {len(pieces)} pieces"

    def answers_at_once(self):
        answer = self.ask("a whole answer").choices[0].message.content
        assert "a whole answer" in answer, answer

    def streams_responses(self):
        events = list(
            self.litellm.responses(model="chatgpt/gpt-5.5", input="good evening from responses", stream=True)
        )
        kinds = [str(getattr(event.type, "value", event.type)) for event in events]
        assert kinds[-1] == "response.completed", kinds
        text = "".join(event.delta for event, kind in zip(events, kinds) if kind == "response.output_text.delta")
        assert "good evening from responses" in text, text


def main(program):
    tally = Tally()
    with Simulator(program, "--auto-approve") as simulator, tempfile.TemporaryDirectory() as home:
        client = Client(simulator, home)
        tally.check("litellm streams a chat answer", client.streams)
        tally.check("litellm takes a chat answer at once", client.answers_at_once)
        tally.check("litellm streams Responses events", client.streams_responses)
    return tally.finish()


sys.exit(main(sys.argv[1]))

"""Real HTTP servers that speak OpenAI chat completions and Anthropic messages, for tests.

    def brain(call: Call) -> Say | Fault:
        return Say("hello") if call.number else Fault.status(429, retry_after="2")

    with openai_server(brain) as url:          # "http://127.0.0.1:PORT/v1"
        ...
        assert url.calls[0].headers["authorization"] == "Bearer none"

`url` is a string that also keeps `.calls`. A brain is any callable; it may keep state: calls are
put to it one at a time, in order of arrival (`call.number` counts them from 0), unless the server
is given `serial=False`, as a brain needs that waits for several calls to be under way. A
brain that raises answers 500 and raises again where the `with` ends, so a failing assertion in it
fails the test. `say_each([...])` is a brain that gives its replies in turn.

`Call.messages` and `.tools` are in OpenAI form whichever protocol was spoken; `.raw` is the body.
`Say` is a whole reply, sent as JSON or as a stream as the client asked: text, tool calls (a
string as arguments goes out as it is: malformed ones are written that way), thinking, refusal,
usage. Token ids and logprobs are given where the client asks as for vLLM.
`Fault` is one row of the fault table: see its constructors. `refused_url()` and
`unreachable_url()` are addresses where nobody listens, or accepts.

Both servers answer on `/v1/models` too. What they do not do: check requests for validity (except
the key, where `key=` is given), embeddings, images. Of the responses API they have the streams.
"""

from tests.loopback._server import FIRST_QUESTION as FIRST_QUESTION
from tests.loopback._server import Url as Url
from tests.loopback._server import anthropic_server as anthropic_server
from tests.loopback._server import openai_server as openai_server
from tests.loopback._server import refused_url as refused_url
from tests.loopback._server import unreachable_url as unreachable_url
from tests.loopback._speech import Brain as Brain
from tests.loopback._speech import Call as Call
from tests.loopback._speech import Fault as Fault
from tests.loopback._speech import Say as Say
from tests.loopback._speech import say_each as say_each

"""The way to the service is lost for a while, as with a tunnel or another network: real routes, in network namespaces.

The program runs on a "machine" of its own, whose only way to the service is a default route. The simulator and nginx stay where they
are: a relay on the service's "machine" leads to them through a socket in a folder.
"""

import subprocess
import sys
import time

import pytest

from counterparts import PATIENCE, Authority, Counterpart, TLSFront, wait_until

pytestmark = pytest.mark.network
ADDRESS, PORT = "10.88.0.1", 8443
# Longer than a retransmission takes at first, and than a poll or some deltas.
OUTAGE = 8

RELAY = """
import asyncio, sys

async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def serve(reader, writer):
    there = sys.argv[2]
    other = await (asyncio.open_unix_connection(there) if "/" in there else asyncio.open_connection("127.0.0.1", int(there)))
    await asyncio.gather(copy(reader, other[1]), copy(other[0], writer))

async def main():
    here = sys.argv[1]
    server = await (asyncio.start_unix_server(serve, here) if "/" in here else asyncio.start_server(serve, *here.split(":")))
    await server.serve_forever()

asyncio.run(main())
"""
MACHINES = """
unshare --net sleep infinity & there=$!
trap 'kill $there' EXIT
while [ "$(readlink /proc/$there/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do :; done
on_it() { nsenter --net --target $there "$@"; }
ip link set lo up
ip link add near type veth peer name far netns $there
ip address add 10.77.0.2/30 dev near
ip link set near up
on_it ip link set lo up
on_it ip address add 10.77.0.1/30 dev far
on_it ip link set far up
on_it ip address add ADDRESS/32 dev lo
ip route add default via 10.77.0.1
# Not by the function: that would be a shell of its own, whose end leaves the relay running.
nsenter --net --target $there PYTHON RELAY ADDRESS:PORT FOLDER/way & relay=$!
trap 'kill $relay $there' EXIT
while ! (exec 3<>/dev/tcp/ADDRESS/PORT) 2>/dev/null; do :; done
echo ready
while read -r verb; do ip route "$verb" default via 10.77.0.1; echo "$verb"; done
"""


class Route(Counterpart):
    """A machine whose way to the server at `port` of this one can be lost; `prefix` starts a program on it."""

    def __init__(self, port):
        super().__init__()
        relay = self.write("relay.py", RELAY)
        self.start(sys.executable, relay, f"{self.folder}/way", str(port))
        text = MACHINES
        for name, value in {"ADDRESS": ADDRESS, "PORT": PORT, "PYTHON": sys.executable, "RELAY": relay, "FOLDER": self.folder}.items():
            text = text.replace(name, str(value))
        enter = ["unshare", "--map-current-user", "--keep-caps", "--net"]
        tried = subprocess.run([*enter, "ip", "link", "add", "near", "type", "veth", "peer", "name", "far"], capture_output=True, text=True)
        if tried.returncode:
            pytest.skip(f"this system gives no network of one's own: {tried.stderr.strip()}")
        wait_until((self.folder / "way").exists, "the relay listens")
        self.machine = self.start(*enter, "bash", self.write("machines", text), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=open(self.folder / "errors", "wb"), text=True)
        assert self.machine.stdout.readline() == "ready\n", self.read("errors")
        self.prefix = ["nsenter", "--preserve-credentials", "--user", "--net", "--target", str(self.machine.pid)]

    def change(self, verb):
        self.machine.stdin.write(verb + "\n")
        self.machine.stdin.flush()
        assert self.machine.stdout.readline() == verb + "\n", self.read("errors")

    def lose(self):
        """Takes the route away for some seconds, which are the subject of the test."""
        self.change("del")
        time.sleep(OUTAGE)
        self.change("add")


@pytest.fixture
def on_the_way(simulate, user, stack, tmp_path):
    """(simulator, route, a user whose programs reach the simulator by this route)."""
    def start(**settings):
        simulator = simulate(**settings)
        authority = Authority(tmp_path)
        front = stack.enter_context(TLSFront(simulator.port, authority.issue(ADDRESS)))
        route = stack.enter_context(Route(front.port))
        origin = f"https://{ADDRESS}:{PORT}"
        person = user(simulator, CHAPPIE_ISSUER=origin, CHAPPIE_BACKEND=origin + "/backend-api", CHAPPIE_CA_FILE=authority.file)
        return simulator, route, person
    return start


def test_a_device_sign_in_outlives_a_lost_route(on_the_way):
    simulator, route, person = on_the_way(approves=False, pollInterval=1)
    with person.start("login", "--no-browser", prefix=route.prefix) as process:
        simulator.wait_for_log(lambda lines: any("/deviceauth/token" in line for line in lines))
        code = next(line.strip() for line in iter(process.stdout.readline, "") if line.startswith("    ") and "/" not in line)
        route.lose()
        begin = time.monotonic()
        assert simulator.post("/codex/device", user_code=code, action="approve") == 200
        output, errors = process.communicate(timeout=60 * PATIENCE)
    took = time.monotonic() - begin
    assert process.returncode == 0 and "Signed in as" in output, output + errors
    assert took < 30 * PATIENCE, f"{took:.0f} s after the way was there again"


@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_an_answer_outlives_a_lost_route(transport, on_the_way, tmp_path):
    simulator, route, person = on_the_way(deltasPerSecond=20)
    with person.start("login", "--no-browser", prefix=route.prefix) as process:
        assert process.wait(60 * PATIENCE) == 0, process.stderr.read()
    answer = tmp_path / "answer"
    with answer.open("wb") as output, person.start(
            "ask", "--transport", transport, "repeat 200 words", prefix=route.prefix, stdout=output) as process:
        wait_until(answer.read_text, "the answer begins")
        route.lose()
        begin = time.monotonic()
        _, errors = process.communicate(timeout=60 * PATIENCE)
    took = time.monotonic() - begin
    assert process.returncode == 0 and len(answer.read_text().split()) == 200, (answer.read_text(), errors)
    assert took < 30 * PATIENCE, f"{took:.0f} s after the way was there again"

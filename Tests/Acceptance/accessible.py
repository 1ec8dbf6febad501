"""What a screen reader sees of a program: reads commands as lines of JSON, answers each with one.

For /usr/bin/python3, which has AT-SPI: `["tree", pid]` is the tree of the process's widgets that show, and
`["act", pid, role, name]` does what a screen reader's user does with one of them.
"""

import json
import sys

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402

Atspi.init()
# A program that hangs is an answer too.
Atspi.set_timeout(30_000, 30_000)


def windows(pid):
    desktop = Atspi.get_desktop(0)
    programs = (desktop.get_child_at_index(index) for index in range(desktop.get_child_count()))
    for program in programs:
        if program and program.get_process_id() == pid:
            program.clear_cache()
            yield from children(program)


def children(node):
    return filter(None, (node.get_child_at_index(index) for index in range(node.get_child_count())))


def describe(node):
    """A widget and what is in it, or `None` for one that does not show."""
    states = {state.value_nick for state in node.get_state_set().get_states()}
    if "visible" not in states:
        return None
    area = node.get_extents(Atspi.CoordType.WINDOW) if "Component" in node.get_interfaces() else None
    length = Atspi.Text.get_character_count(node) if "Text" in node.get_interfaces() else 0
    return {
        "role": node.get_role_name(), "name": node.get_name(), "description": node.get_description(), "states": sorted(states),
        "text": Atspi.Text.get_text(node, 0, length) if length else "",
        "area": area and [area.x, area.y, area.width, area.height],
        "children": [child for child in map(describe, children(node)) if child],
    }


def find(nodes, role, name):
    for node in nodes:
        if node.get_role_name() == role and node.get_name() == name:
            return node
        if found := find(children(node), role, name):
            return found
    return None


def answer(command, pid, *words):
    if command == "tree":
        return [window for window in map(describe, windows(pid)) if window]
    node = find(windows(pid), *words)
    return bool(node and Atspi.Action.do_action(node, 0))


def persistent(*command):
    """The answer, from a program that holds still: a widget may go away while it is looked at."""
    for _ in range(20):
        try:
            return answer(*command)
        except GLib.Error:
            continue
    return None


for line in sys.stdin:
    print(json.dumps(persistent(*json.loads(line))), flush=True)

"""Links from the documentation of one module to another's: links.py SYMBOLS LINKED

Copies the symbol graphs SYMBOLS/MODULE/*.symbols.json to LINKED. A comment names a type of another module as it names its own,
``HTTPTransport``. DocC needs the module too: ``/ChappieCore/HTTPTransport``.
"""

import collections
import json
import pathlib
import re
import sys

source, target = map(pathlib.Path, sys.argv[1:])
graphs = {path: json.loads(path.read_text()) for path in source.glob("*/*.symbols.json")}
homes, names = {}, collections.defaultdict(set)
for path, graph in graphs.items():
    for symbol in graph["symbols"]:
        names[path.parent.name].add(symbol["pathComponents"][-1])
        if len(symbol["pathComponents"]) == 1:
            homes[symbol["pathComponents"][0]] = path.parent.name

for path, graph in graphs.items():
    module = path.parent.name

    def link(found):
        first, second = found[1], found[3]
        if first != module and homes.get(second) == first:
            return f"``/{first}/{second}"
        return found[0] if first in names[module] or first not in homes else f"``/{homes[first]}/{first}{found[2]}"

    for symbol in graph["symbols"]:
        for line in symbol.get("docComment", {}).get("lines", []):
            line["text"] = re.sub(r"(?<!`)``(\w+)((?:/(\w+))?)(?=[/`(])", link, line["text"])
    copy = target / path.relative_to(source)
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(json.dumps(graph))

"""Says when the look at what changes without this repository is long ago: outside.py [TODAY]

Prints nothing, or a note for each file: it is never a failure. What is known, since when and where to look stands in two files.
`chappie doctor` reads the first one as well. The second one is Apple's list of APIs that need a reason.
"""

import datetime
import json
import os
import re
import sys

FILE = os.path.join("Apps", "chappie", "Sources", "chappie", "Doctor", "Outside.swift")
with open(os.path.join(os.path.dirname(__file__), "..", "..", FILE), encoding="utf-8") as stream:
    TEXT = stream.read()

looked_at = datetime.date.fromisoformat(re.search(r'lookedAt = "(.*)"', TEXT)[1])
today = datetime.date.fromisoformat(sys.argv[1]) if len(sys.argv) > 1 else datetime.date.today()
age = (today - looked_at).days
if age > int(re.search(r"daysUntilOld = (\d+)", TEXT)[1]):
    known = re.findall(r'\("([\w ]+)", .*"(https://.*)"\)', TEXT)
    print(f"note: services and formats were looked at {age} days ago, on {looked_at}. Look up, then raise the date in {FILE}:")
    for name, address in known:
        print(f"        {name}: {address}")

apple = os.path.join("Scripts", "lib", "required-reasons.json")
with open(os.path.join(os.path.dirname(__file__), "..", "..", apple), encoding="utf-8") as stream:
    reasons = json.load(stream)
age = (today - datetime.date.fromisoformat(reasons["lookedAt"])).days
if age > reasons["daysUntilOld"]:
    print(f"note: Apple's list was looked at {age} days ago. Look it up at {reasons['source']}, then raise the date in {apple}.")

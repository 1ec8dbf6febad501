"""Prints "PASSED FAILED" of the xUnit files in a folder, and lists what was skipped on standard error.

Swift Testing and XCTest each write a file of their own; the one that ran nothing is empty.
"""

import glob
import os
import sys
import xml.etree.ElementTree

passed = failed = 0
for path in sorted(glob.glob(os.path.join(sys.argv[1], "results*.xml"))):
    try:
        cases = xml.etree.ElementTree.parse(path).getroot().iter("testcase")
    except xml.etree.ElementTree.ParseError:
        continue  # The run ended before the file did; its exit code tells.
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            print(f"  skipped: {name}", file=sys.stderr)
        else:
            passed += 1
print(passed, failed)

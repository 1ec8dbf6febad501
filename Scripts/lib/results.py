"""Prints "PASSED FAILED" of xUnit files, and lists what was skipped on standard error."""

import sys
import xml.etree.ElementTree as ElementTree

passed = failed = 0
for path in sys.argv[1:]:
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        continue  # The run ended before the file did; its exit code tells.
    for case in cases:
        kinds = {child.tag for child in case}
        failed += bool(kinds & {"failure", "error"})
        passed += not kinds & {"failure", "error", "skipped"}
        if "skipped" in kinds:
            print(f"  skipped: {case.get('classname')}.{case.get('name')}", file=sys.stderr)
print(passed, failed)

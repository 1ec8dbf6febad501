"""Prints the names of the root manifest's test targets."""

import tree

for target in tree.manifest(tree.ROOT)["targets"]:
    if target["type"] == "test":
        print(target["name"])

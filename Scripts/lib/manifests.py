"""Checks that the root manifest and the nested manifests say the same of every target."""

import json
import os

import tree

# Products that the root names otherwise than the package: the testing product is what a test target links.
RENAMED = {"ChappieTesting": "ChappieSDKTesting"}
# What our own packages share and nobody else should build on: a product of its package, not of the root.
OURS_ALONE = {"ChappieCurl"}


def summary(target, folder):
    """What must be equal, in a form that doesn't say which manifest it comes from."""
    default = f"{'Tests' if target['type'] == 'test' else 'Sources'}/{target['name']}"
    path = os.path.normpath(os.path.join(folder, target.get("path") or default))
    return {
        "type": target["type"],
        "path": tree.relative(path),
        "dependencies": sorted(tree.dependency_names(target)),
        "settings": sorted(json.dumps(setting, sort_keys=True) for setting in target["settings"]),
        "exclude": sorted(target.get("exclude", [])),
        "resources": sorted(json.dumps(resource, sort_keys=True) for resource in target.get("resources", [])),
        "plugins": json.dumps(target.get("pluginUsages"), sort_keys=True),
    }


def requirements(package):
    """URL -> version requirement of the dependencies that come from elsewhere."""
    found = {}
    for dependency in package["dependencies"]:
        for remote in dependency.get("sourceControl", []):
            location = remote["location"]["remote"][0]
            url = location["urlString"] if isinstance(location, dict) else location
            found[url] = json.dumps([remote["requirement"], remote.get("traits")], sort_keys=True)
    return found


def main():
    problems, compared = [], 0
    root = tree.manifest(tree.ROOT)
    targets = {target["name"]: target for target in root["targets"]}
    products = {product["name"] for product in root["products"]}
    remote = requirements(root)
    nested = set()
    for folder in tree.packages():
        name = os.path.basename(folder)
        package = tree.manifest(folder)
        if package["name"] != name:
            problems.append(f"{name}: its manifest calls it {package['name']}")
        for key in ("platforms", "swiftLanguageVersions", "cLanguageStandard", "cxxLanguageStandard"):
            if package[key] != root[key]:
                problems.append(f"{name}: {key} is {json.dumps(package[key])}, at the root {json.dumps(root[key])}")
        for url, requirement in requirements(package).items():
            if remote.get(url) != requirement:
                problems.append(f"{name}: asks for {url} otherwise than the root does")
        for product in package["products"]:
            wanted = RENAMED.get(product["name"], product["name"])
            library = "library" in product["type"]
            if library and wanted.startswith("Chappie") and wanted not in products | OURS_ALONE:
                problems.append(f"{name}: its product {wanted} isn't a product of the root")
        for target in package["targets"]:
            compared += 1
            nested.add(target["name"])
            here = summary(target, folder)
            if target["name"] not in targets:
                if os.path.isdir(os.path.join(tree.ROOT, here["path"])):
                    problems.append(f"{name}: the root manifest has no target {target['name']}")
                continue
            there = summary(targets[target["name"]], tree.ROOT)
            for key in here:
                if here[key] != there[key]:
                    problems.append(f"{target['name']}: {key}\n    in {name}: {here[key]}\n    at the root: {there[key]}")
    for name, target in targets.items():
        if (target.get("path") or "").startswith("Packages/") and name not in nested:
            problems.append(f"{name}: only the root manifest knows it")
    tree.report(problems, f"{compared} targets are the same in both manifests")


main()

"""Writes the bill of materials of a Debian package in SPDX 2.3."""

import datetime
import hashlib
import json
import re

import materials


def sums(data):
    return [{"algorithm": name, "checksumValue": hashlib.new(name, data).hexdigest()} for name in ("SHA1", "SHA256")]


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.]+", "-", name)


def bill(name, version, architecture, time, contents, own, parts, libraries):
    """Returns the document as text. `contents` maps the installed path of each file to its bytes, and `own` is the path of the
    document itself. `parts` are linked into the program, and `libraries` are the Debian packages whose libraries it loads."""
    us = identifier("Package", name)
    swift = identifier("Tool", "swift")
    files = [{
        "SPDXID": identifier("File", path), "fileName": "./" + path, "checksums": sums(data), "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    } for path, data in contents.items()]
    content = hashlib.sha1("".join(sorted(file["checksums"][0]["checksumValue"] for file in files)).encode()).hexdigest()
    packages = [{
        "SPDXID": us, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
        "packageVerificationCode": {
            "packageVerificationCodeValue": content, "packageVerificationCodeExcludedFiles": ["./" + own]},
        "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "APPLICATION",
        "externalRefs": [reference(f"pkg:deb/{name}@{version}?arch={architecture}")],
    }, {
        "SPDXID": swift, "name": "swift", "versionInfo": materials.swift_version(),
        "downloadLocation": "https://www.swift.org/install", "filesAnalyzed": False, "comment": materials.output("swift", "--version").strip(),
        "licenseConcluded": "NOASSERTION", "licenseDeclared": materials.SWIFT, "copyrightText": "NOASSERTION",
    }]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", us), (swift, "BUILD_TOOL_OF", us)]
    for kind, relation, found in (("Part", "STATIC_LINK", parts), ("Library", "DYNAMIC_LINK", libraries)):
        for material in found:
            packages.append({
                "SPDXID": identifier(kind, material.name), "name": material.name, "versionInfo": material.version,
                "downloadLocation": material.location, "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                "licenseDeclared": material.licence, "copyrightText": material.copyright,
                "externalRefs": [reference(material.purl)],
            })
            relations.append((us, relation, identifier(kind, material.name)))
    relations += [(us, "CONTAINS", file["SPDXID"]) for file in files]
    return json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}_{version}_{architecture}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}-{architecture}-{content}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: chappie-package"],
        },
        "packages": packages, "files": files,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations],
    }, indent=1, ensure_ascii=False) + "\n"


def reference(purl):
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}

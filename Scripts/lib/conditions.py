"""What Apple's systems compile of a file. Import it."""

import re

# Modules of Apple's systems.
APPLE = {"Accessibility", "AppKit", "AuthenticationServices", "Combine", "CoreGraphics", "CoreImage", "CryptoKit", "FoundationModels", "ImageIO", "Network", "Security", "SwiftUI", "UIKit", "UniformTypeIdentifiers", "UserNotifications"}
# What only some of Apple's systems have, by the names that `os` takes.
SYSTEMS = {"macOS": {"AppKit"}, "iOS": {"UIKit"}, "visionOS": {"UIKit"}}
# Modules that Apple's systems lack. A module of ours is asked for only if Linux alone has it.
NOT_APPLES = {"Glibc", "Musl", "Bionic", "Android", "FoundationEssentials", "FoundationNetworking"}
OURS = re.compile(r"Chappie|C[A-Z]")


def holds(condition, system):
    """Whether a condition of `#if` holds on one of Apple's systems. What does not depend on the system holds."""
    def value(found):
        kind, name = found[1], found[2]
        if kind == "os":
            return str(name == system)
        if kind == "canImport":
            return str(name in SYSTEMS[system] or name not in NOT_APPLES | {"AppKit", "UIKit"} and not OURS.match(name))
        return str(not re.search(r"linux|CHAPPIE_FULL_FOUNDATION", found[0]))
    text = re.sub(r"\b([A-Za-z]\w*)\s*\(([^)]*)\)|\b[A-Za-z_]\w*", value, condition.partition("//")[0])
    return eval(text.replace("&&", " and ").replace("||", " or ").replace("!", " not ").strip())


def compiled_for_apple(text):
    """(line, code) of a Swift or C file, as far as one of Apple's systems compiles it, without comments."""
    lines = {}
    for system in SYSTEMS:
        # For each open `#if`: whether this branch is compiled, and whether a branch has been.
        blocks = []
        for number, line in enumerate(text.splitlines(), 1):
            directive = re.match(r"\s*#(if|ifdef|ifndef|elseif|elif|else|endif)\b(.*)", line)
            if not directive:
                if all(is_compiled for is_compiled, _ in blocks):
                    lines[number] = line.partition("//")[0]
                continue
            kind, condition = directive[1], directive[2]
            was_compiled = kind in ("elseif", "elif", "else", "endif") and blocks.pop()[1]
            if kind != "endif":
                is_taken = kind in ("ifndef", "else") or holds(condition, system)
                blocks.append((is_taken and not was_compiled, is_taken or was_compiled))
    return sorted(lines.items())

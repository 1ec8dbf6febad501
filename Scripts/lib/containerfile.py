"""Carries out the second stage of Containerfile in a root of Debian, where there is no engine of containers. It knows the
instructions that the file uses, and refuses any other. Tests/Acceptance/test_package.py uses it, as root."""

import json
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A process of its own tree of mounts and processes, which end with it. The words that follow are commands of a shell, the root, and
# what to run in it.
OWN = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec"]
PROC = 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; '


def make_root(folder):
    """Makes a new Debian 12 in the folder."""
    subprocess.run(["bash", ROOT / "Scripts/lib/debian.sh", folder], check=True, stdin=subprocess.DEVNULL)


def in_root(root, *words, mounts=""):
    """Returns the command that runs `words` in a root, with a part of a shell's script that makes mounts in it."""
    return [*OWN, PROC + mounts + 'exec chroot "$0" "$@"', str(root), *words]


def instructions(text):
    """Returns (instruction, its text) for each instruction, with its continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")).replace("\\\n", " ")
    found = [line.split(None, 1) for line in lines.splitlines() if line.strip()]
    unknown = {word for word, _ in found} - {"FROM", "RUN", "COPY", "ENV", "USER", "ENTRYPOINT"}
    assert not unknown, f"Containerfile has instructions that the check doesn't know: {unknown}"
    return found


def stages(text):
    """Returns (name, base, instructions) of each stage."""
    found = []
    for word, rest in instructions(text):
        if word == "FROM":
            base, *name = re.fullmatch(r"(\S+)(?:\s+AS\s+(\S+))?", rest.strip()).groups()
            found.append((name[0], base, []))
        else:
            found[-1][2].append((word, rest))
    return found


class Image:
    """The image that the last stage makes, in a root of the Debian that it begins with."""

    def __init__(self, root, packages):
        """`packages` is the folder that the first stage makes."""
        (build, _, building), (_, base, steps) = stages((ROOT / "Containerfile").read_text(encoding="utf-8"))
        assert base == "debian:12-slim", f"the image begins with {base}, and the check with a Debian 12"
        script, made = re.fullmatch(r"/src/(\S+) (\S+)", dict(building)["RUN"].strip()).groups()
        assert (ROOT / script).exists() and dict(building)["COPY"].split() == [".", "/src"], building
        self.root, self.environment, self.user, self.entrypoint = root, {}, "0:0", []
        for word, rest in steps:
            match word:
                case "RUN":
                    mount, command = re.fullmatch(r"(?:--mount=(\S+)\s+)?(.*)", rest, re.DOTALL).groups()
                    self.build(command, dict(option.split("=") for option in mount.split(",")) if mount else {}, build, made, packages)
                case "ENV":
                    self.environment |= dict(setting.split("=", 1) for setting in shlex.split(rest))
                case "USER":
                    self.user = rest.strip()
                case "ENTRYPOINT":
                    self.entrypoint = json.loads(rest)
                case _:
                    raise AssertionError(f"the check can't carry out {word} in the last stage")

    def build(self, command, mount, build, made, packages):
        mounts = ""
        if mount:
            assert mount == {"type": "bind", "from": build, "source": made, "target": mount["target"]}, mount
            target = self.root / mount["target"].lstrip("/")
            target.mkdir()
            mounts = f"mount --bind {shlex.quote(str(packages))} {shlex.quote(str(target))}; "
        done = subprocess.run(in_root(self.root, "sh", "-c", command, mounts=mounts), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})
        assert done.returncode == 0, done
        if mount:
            target.rmdir()

    def run(self, *words, **settings):
        """Runs the image's program, as `podman run --read-only --cap-drop all --network host` does. Settings are added to its
        environment."""
        user, group = self.user.split(":")
        mounts = 'mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"; mount -t tmpfs tmpfs "$0/tmp"; '
        # The mounts of /proc and /dev are made again above the bound root.
        drop = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        command = [*OWN, mounts + PROC + 'cd "$0"; exec chroot . "$@"', str(self.root), *drop, *self.entrypoint, *words]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **self.environment, **settings})

"""A desktop for one test: a screen, a window manager, a bus with accessibility, a browser, notifications. All real but the last two."""

import contextlib
import json
import os
import pathlib
import re
import subprocess

from counterparts import Session, wait_until

HERE = pathlib.Path(__file__).parent


class Desktop(Session):
    """`start(…)` runs a program on it; `pages` are the addresses that its browser was asked for, `notifications` what was told."""

    def __init__(self, size="1000x800", dark=False):
        super().__init__()
        screen = self.start("Xvfb", "-displayfd", "1", "-screen", "0", size + "x24", "-nolisten", "tcp", "-noreset", stdout=subprocess.PIPE, text=True)
        self.environment |= {"DISPLAY": ":" + screen.stdout.readline().strip(), "GDK_BACKEND": "x11", "LANG": "C.UTF-8",
                             "GSK_RENDERER": "cairo", "GTK_A11Y": "atspi", "NO_AT_BRIDGE": "0"}
        self.start("openbox", "--sm-disable", env=self.environment)
        wait_until(lambda: self.call("xdotool", "get_num_desktops").returncode == 0, "the window manager is there")
        self._install_browser()
        settings = self.folder / "XDG_CONFIG_HOME/gtk-4.0/settings.ini"
        settings.parent.mkdir()
        settings.write_text(f"[Settings]\ngtk-application-prefer-dark-theme={int(dark)}\n")
        self.notified = open(self.folder / "notified", "w+", encoding="utf-8")
        self.start("/usr/bin/python3", "-m", "dbusmock", "--session", "--template", "notification_daemon",
                   env=self.environment, stdout=self.notified)
        self.call("gdbus", "wait", "--session", "--timeout=20", "org.freedesktop.Notifications").check_returncode()
        self.reader = self.start("/usr/bin/python3", str(HERE / "accessible.py"), env=self.environment,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _install_browser(self):
        applications = self.folder / "XDG_DATA_HOME/applications"
        applications.mkdir()
        script = self.folder / "browser"
        script.write_text(f"#!/bin/sh\necho \"$1\" >>'{self.folder}/pages'\n")
        script.chmod(0o755)
        (self.folder / "pages").touch()
        kinds = "x-scheme-handler/http;x-scheme-handler/https;"
        (applications / "browser.desktop").write_text(
            f"[Desktop Entry]\nType=Application\nName=Browser\nExec={script} %u\nMimeType={kinds}\n")
        (self.folder / "XDG_CONFIG_HOME/mimeapps.list").write_text(
            "[Default Applications]\n" + "".join(f"{kind}=browser.desktop\n" for kind in kinds.split(";") if kind))

    @property
    def pages(self):
        return self.read("pages").splitlines()

    @property
    def complaints(self):
        """What the program has written to standard error.

        A GtkGizmo is a part that GTK makes for its own widgets. On a busy machine, GTK draws one before it has a size, and says so.
        """
        return re.sub(r"\n?\(.*\): Gtk-WARNING \*\*: .*: Trying to snapshot GtkGizmo \w+ without a current allocation\n", "", self.read("errors"))

    @property
    def notifications(self):
        return re.findall(r' Notify (.*)', self.read("notified"))

    @property
    def clipboard(self):
        return self.call("xclip", "-o", "-selection", "clipboard").stdout

    def take_clipboard(self, text):
        """As another program, which keeps it."""
        owner = self.start("xclip", "-quiet", "-selection", "clipboard", stdin=subprocess.PIPE, env=self.environment, text=True)
        owner.stdin.write(text)
        owner.stdin.close()
        wait_until(lambda: self.clipboard == text, "another program has the clipboard")

    def wait_for_active(self, title=None):
        """A key that comes while no window has the focus, or the wrong one, is lost."""
        there = lambda: self.call("xdotool", "getactivewindow", "getwindowname")
        wait_until(lambda: (found := there()).returncode == 0 and title in (None, found.stdout.strip()),
                   lambda: f"the window {title or ''} is active: {there().stdout}")

    def press(self, *keys):
        self.wait_for_active()
        self.call("xdotool", "key", "--clearmodifiers", *keys).check_returncode()

    def type(self, text):
        self.wait_for_active()
        self.call("xdotool", "type", "--clearmodifiers", text).check_returncode()

    def click(self, x, y, width):
        """In the active window, whose own drawing is so wide: around it GTK keeps room for a shadow."""
        window = self.call("xdotool", "getactivewindow").stdout.strip()
        geometry = self.call("xdotool", "getwindowgeometry", "--shell", window).stdout
        border = (int(re.search(r"WIDTH=(\d+)", geometry)[1]) - width) // 2
        self.call("xdotool", "mousemove", "--window", window, str(x + border), str(y + border), "click", "1").check_returncode()

    def drag(self, files, title, has_arrived, look=lambda: None):
        """From a file manager's window to the window with this title. The two programs answer each other at every step, and one
        that is late loses the drop: as a person would, it is tried again then. `look()` is called before each drop."""
        self.start("/usr/bin/python3", str(HERE / "drag_source.py"), *map(str, files), env=self.environment)
        self.wait_for_active("Files")
        find = lambda name: self.call("xdotool", "search", "--onlyvisible", "--name", f"^{name}$").stdout.split()[-1]
        source, target = find("Files"), find(title)
        self.call("xdotool", "windowmove", "--sync", source, "0", "0").check_returncode()
        mouse = lambda *words: self.call("xdotool", *words).check_returncode()
        for _ in range(10):
            mouse("mousemove", "--window", source, "80", "80", "mousedown", "1")
            for step in range(3):
                mouse("mousemove_relative", "12", "12")
            for step in range(8):
                mouse("mousemove", "--window", target, str(300 + step), "400")
            look()
            mouse("mouseup", "1")
            with contextlib.suppress(AssertionError):
                return wait_until(has_arrived, "the files arrive", 3)
        raise AssertionError("ten drops are lost")

    def shoot(self, path):
        self.call("import", "-window", "root", str(path)).check_returncode()

    def lightness(self):
        """From 0 to 1, in the mean of the whole screen but its black background."""
        picture = self.folder / "screen.png"
        self.call("import", "-window", "root", "-trim", str(picture)).check_returncode()
        return float(self.call("identify", "-format", "%[fx:mean]", str(picture)).stdout)

    def darkness(self, x, y, width, height):
        """From 0 to 1, in the mean of a part of the screen."""
        picture = self.folder / "part.png"
        self.call("import", "-window", "root", "-crop", f"{width}x{height}+{x}+{y}", str(picture)).check_returncode()
        return 1 - float(self.call("identify", "-format", "%[fx:mean]", str(picture)).stdout)

    def resize(self, width, height):
        """The active window, whose upper left corner it moves to that of the screen."""
        window = self.call("xdotool", "getactivewindow").stdout.strip()
        self.call("xdotool", "windowmove", window, "0", "0", "windowsize", window, str(width), str(height)).check_returncode()

    def accessible(self, *command):
        self.reader.stdin.write(json.dumps(command) + "\n")
        self.reader.stdin.flush()
        return json.loads(self.reader.stdout.readline())

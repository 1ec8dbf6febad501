"""A window from which files are dragged, as from a file manager's; for /usr/bin/python3, which has GTK 4."""

import sys

import gi

gi.require_version("Gtk", "4.0")
from gi.repository import Gdk, Gio, GLib, Gtk  # noqa: E402


def show(application):
    files = [Gio.File.new_for_path(path) for path in sys.argv[1:]]
    source = Gtk.DragSource()
    addresses = "".join(file.get_uri() + "\r\n" for file in files).encode()
    source.set_content(Gdk.ContentProvider.new_for_bytes("text/uri-list", GLib.Bytes.new(addresses)))
    label = Gtk.Label(label="files", hexpand=True, vexpand=True)
    label.add_controller(source)
    window = Gtk.ApplicationWindow(application=application, title="Files", child=label, default_width=200, default_height=120)
    window.present()


application = Gtk.Application(application_id="com.example.files")
application.connect("activate", show)
application.run([])

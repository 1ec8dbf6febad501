"""A Secret Service for python-dbusmock, with one keyring and at most one item, that misbehaves on purpose.

Parameters, all optional:
locked   true: the keyring is locked, and an item is stored in it
prompt   how the person answers a prompt: accepts (default), dismisses, waits (until it is dismissed by the program),
         ignores (that as well), leaves (the service ends while it is up)
creating true: making an item needs a prompt
secret   what is given back: same (default), other, garbled
refuses  true: every search is refused with AccessDenied
silent   true: nothing that is asked is ever answered
"""
import os

import dbus
from gi.repository import GLib

BUS_NAME = "org.freedesktop.secrets"
MAIN_OBJ = "/org/freedesktop/secrets"
SECRET = "org.freedesktop.Secret."
MAIN_IFACE = SECRET + "Service"
SYSTEM_BUS = False

COLLECTION = MAIN_OBJ + "/collection/login"
SESSION = MAIN_OBJ + "/session/s1"
ITEM = COLLECTION + "/1"
PROMPT = MAIN_OBJ + "/prompt/p1"
NOTHING = dbus.ObjectPath("/")


class Keyring:
    def __init__(self, mock, parameters):
        self.mock = mock
        self.parameters = parameters
        self.locked = bool(parameters.get("locked"))
        self.stored = b"stored" if self.locked else None
        # What an accepted prompt does, and what its signal then carries.
        self.accepted = None

    def answer(self, method):
        """The method's body, or what takes its place in a service that never answers."""
        if self.parameters.get("silent"):
            return lambda _self, *arguments: GLib.MainLoop().run()
        return lambda _self, *arguments: method(*arguments)

    def open_session(self, algorithm, value):
        if algorithm != "plain":
            raise dbus.DBusException("only plain sessions", name="org.freedesktop.DBus.Error.NotSupported")
        return dbus.String("", variant_level=1), dbus.ObjectPath(SESSION)

    def search(self, attributes):
        if self.parameters.get("refuses"):
            raise dbus.DBusException("not for this program.", name="org.freedesktop.DBus.Error.AccessDenied")
        found = [dbus.ObjectPath(ITEM)] if self.stored is not None else []
        found, locked = ([], found) if self.locked else (found, [])
        return dbus.Array(found, signature="o"), dbus.Array(locked, signature="o")

    def unlock(self, objects):
        if not self.locked:
            return dbus.Array(objects, signature="o"), NOTHING
        self.accepted = lambda: self.open(objects)
        return dbus.Array([], signature="o"), dbus.ObjectPath(PROMPT)

    def open(self, objects):
        self.locked = False
        for path, interface in ((COLLECTION, "Collection"), (ITEM, "Item")):
            self.object(path).UpdateProperties(SECRET + interface, {"Locked": dbus.Boolean(False)})
        return dbus.Array(objects, signature="o")

    def secret(self, session):
        value = b"something else" if self.parameters.get("secret") == "other" else self.stored
        # A session that encrypts nothing has no parameters: these make the secret one that can't be decoded.
        parameters = b"?" if self.parameters.get("secret") == "garbled" else b""
        return dbus.Struct(
            (session, dbus.ByteArray(parameters), dbus.ByteArray(value), "text/plain"), signature="oayays")

    def secrets(self, items, session):
        return dbus.Dictionary({item: self.secret(session) for item in items}, signature="o(oayays)")

    def create(self, properties, secret, replace):
        value = bytes(secret[2])
        if self.parameters.get("creating"):
            self.accepted = lambda: self.store(value)
            return NOTHING, dbus.ObjectPath(PROMPT)
        return self.store(value), NOTHING

    def store(self, value):
        self.stored = value
        return dbus.ObjectPath(ITEM)

    def set(self, secret):
        self.stored = bytes(secret[2])

    def delete(self):
        self.stored = None
        return NOTHING

    def prompt(self, window):
        how = self.parameters.get("prompt", "accepts")
        if how == "accepts":
            self.complete(False)
        elif how == "dismisses":
            self.complete(True)
        elif how == "leaves":
            # Not before the answer to this call is out.
            GLib.timeout_add(50, lambda: os._exit(0))

    def dismiss(self):
        if self.parameters.get("prompt") == "waits":
            self.complete(True)

    def complete(self, dismissed):
        def emit():
            result = NOTHING if dismissed else self.accepted()
            self.object(PROMPT).EmitSignal(SECRET + "Prompt", "Completed", "bv", [dismissed, result])

        GLib.idle_add(emit)

    def object(self, path):
        return self.mock.objects[path]


def load(mock, parameters):
    # The module's own table of objects, which a template may not import under another name.
    from dbusmock.mockobject import objects

    mock.objects = objects
    keyring = Keyring(mock, parameters)
    mock.AddMethods(MAIN_IFACE, [
        ("OpenSession", "sv", "vo", keyring.answer(keyring.open_session)),
        ("SearchItems", "a{ss}", "aoao", keyring.answer(keyring.search)),
        ("ReadAlias", "s", "o", keyring.answer(lambda name: dbus.ObjectPath(COLLECTION))),
        ("GetSecrets", "aoo", "a{o(oayays)}", keyring.answer(keyring.secrets)),
        ("Unlock", "ao", "aoo", keyring.answer(keyring.unlock)),
    ])
    times = {"Created": dbus.UInt64(1), "Modified": dbus.UInt64(1)}
    mock.AddObject(
        COLLECTION, SECRET + "Collection",
        {"Items": dbus.Array([], signature="o"), "Label": "Login", "Locked": keyring.locked, **times},
        [("CreateItem", "a{sv}(oayays)b", "oo", keyring.answer(keyring.create))])
    mock.AddObject(
        ITEM, SECRET + "Item",
        {
            "Locked": keyring.locked, "Label": "",
            "Attributes": dbus.Dictionary({"service": "com.chappie.sdk", "account": "default"}, signature="ss"), **times,
        },
        [
            ("GetSecret", "o", "(oayays)", keyring.answer(keyring.secret)),
            ("SetSecret", "(oayays)", "", keyring.answer(keyring.set)),
            ("Delete", "", "o", keyring.answer(keyring.delete)),
        ])
    mock.AddObject(
        PROMPT, SECRET + "Prompt", {},
        [
            ("Prompt", "s", "", keyring.answer(keyring.prompt)),
            ("Dismiss", "", "", keyring.answer(keyring.dismiss)),
        ])

"""A Secret Service for python-dbusmock, with one keyring and at most one item, that misbehaves on purpose.

Parameters, all optional:
locked   true: the keyring is locked, and an item is stored in it
prompt   how the person answers a prompt: accepts (default), dismisses, waits (until it is dismissed by the program),
         ignores (that as well), leaves (the service ends while it is up)
creating true: making an item needs a prompt
secret   what is given back: same (default), other, garbled
kwallet  true: the service says that it is KWallet, and that its wallet is open
refused  how many sessions are refused, as KWallet refuses those whose key is short
misread  how many times a secret comes back garbled, as KWallet's does if a key is short
refuses  true: every search is refused with AccessDenied
silent   true: nothing that is asked is ever answered
"""
import os

import dbus
import dbus.service
from dbus import Array, Boolean, Dictionary, ObjectPath, String, UInt64
from gi.repository import GLib

BUS_NAME = "org.freedesktop.secrets"
MAIN_OBJ = "/org/freedesktop/secrets"
SECRET = "org.freedesktop.Secret."
MAIN_IFACE = SECRET + "Service"
SYSTEM_BUS = False

COLLECTION = MAIN_OBJ + "/collection/login"
ITEM = COLLECTION + "/1"
PROMPT = MAIN_OBJ + "/prompt/p1"
NOTHING = ObjectPath("/")


class Keyring:
    def __init__(self, objects, parameters):
        self.objects, self.parameters = objects, parameters
        self.locked = bool(parameters.get("locked"))
        self.stored = b"stored" if self.locked else None
        self.refused, self.misread = parameters.get("refused", 0), parameters.get("misread", 0)
        # What an accepted prompt does, and what its signal then carries.
        self.accepted = None

    def open_session(self, algorithm, value):
        if self.refused:
            self.refused -= 1
            raise dbus.DBusException(
                "Client public key size is invalid", name="org.freedesktop.DBus.Error.InvalidArgs")
        if algorithm != "plain":
            raise dbus.DBusException("only plain sessions", name="org.freedesktop.DBus.Error.NotSupported")
        return String("", variant_level=1), ObjectPath(MAIN_OBJ + "/session/s1")

    def search(self, attributes):
        if self.parameters.get("refuses"):
            raise dbus.DBusException("not for this program.", name="org.freedesktop.DBus.Error.AccessDenied")
        found, nothing = Array([ITEM] if self.stored else [], signature="o"), Array([], signature="o")
        return (nothing, found) if self.locked else (found, nothing)

    def unlock(self, objects):
        self.accepted = lambda: self.open(objects)
        return Array([], signature="o"), ObjectPath(PROMPT)

    def open(self, objects):
        self.locked = False
        self.objects[COLLECTION].UpdateProperties(SECRET + "Collection", {"Locked": Boolean(False)})
        return Array(objects, signature="o")

    def secret(self, session):
        value = b"something else" if self.parameters.get("secret") == "other" else self.stored
        # A session that encrypts nothing has no parameters: these make the secret one that can't be decoded.
        parameters = b"?" if self.parameters.get("secret") == "garbled" or self.misread else b""
        self.misread = max(0, self.misread - 1)
        return dbus.Struct(
            (session, dbus.ByteArray(parameters), dbus.ByteArray(value), "text/plain"), signature="oayays")

    def create(self, properties, secret, replace):
        if not self.parameters.get("creating"):
            return self.store(secret), NOTHING
        self.accepted = lambda: self.store(secret)
        return NOTHING, ObjectPath(PROMPT)

    def store(self, secret):
        self.stored = secret and bytes(secret[2])
        return ObjectPath(ITEM)

    def prompt(self, window):
        how = self.parameters.get("prompt", "accepts")
        if how in ("accepts", "dismisses"):
            self.complete(how == "dismisses")
        elif how == "leaves":
            # Not before the answer to this call is out.
            GLib.timeout_add(50, lambda: os._exit(0))

    def dismiss(self):
        if self.parameters.get("prompt") == "waits":
            self.complete(True)

    def complete(self, dismissed):
        GLib.idle_add(lambda: self.objects[PROMPT].EmitSignal(
            SECRET + "Prompt", "Completed", "bv", [dismissed, NOTHING if dismissed else self.accepted()]))


def load(mock, parameters):
    # The module's own table of objects, which a template may not import under another name.
    from dbusmock.mockobject import objects

    keyring = Keyring(objects, parameters)

    def methods(*table):
        """The methods, or what takes their place in a service that never answers."""
        def body(method):
            return lambda _, *arguments: GLib.MainLoop().run() if parameters.get("silent") else method(*arguments)
        return [(name, takes, gives, body(method)) for name, takes, gives, method in table]

    mock.AddMethods(MAIN_IFACE, methods(
        ("OpenSession", "sv", "vo", keyring.open_session),
        ("SearchItems", "a{ss}", "aoao", keyring.search),
        ("ReadAlias", "s", "o", lambda name: ObjectPath(COLLECTION)),
        ("Unlock", "ao", "aoo", keyring.unlock)))
    mock.AddObject(COLLECTION, SECRET + "Collection", {"Locked": keyring.locked, "Label": "login"}, methods(
        ("CreateItem", "a{sv}(oayays)b", "oo", keyring.create)))
    attributes = Dictionary({"service": "com.chappie.sdk", "account": "default"}, signature="ss")
    mock.AddObject(ITEM, SECRET + "Item", {"Attributes": attributes, "Modified": UInt64(1)}, methods(
        ("GetSecret", "o", "(oayays)", keyring.secret),
        ("SetSecret", "(oayays)", "", lambda secret: keyring.store(secret) and None),
        ("Delete", "", "o", lambda: keyring.store(None) and NOTHING)))
    mock.AddObject(PROMPT, SECRET + "Prompt", {}, methods(
        ("Prompt", "s", "", keyring.prompt), ("Dismiss", "", "", keyring.dismiss)))
    if parameters.get("kwallet"):
        keyring.name = dbus.service.BusName("org.kde.kwalletd5", mock.bus_name.get_bus())
        mock.AddObject("/modules/kwalletd5", "org.kde.KWallet", {}, methods(
            ("isOpen", "s", "b", lambda wallet: wallet == "login")))

"""What gnome-keyring shows its prompts with, without a person: answers each with the password that is the only argument,
and cancels the prompt when it is asked again.

The interface is gcr's own between a program and its prompter (org.gnome.keyring.internal.Prompter).
"""
import sys

import dbus
import dbus.mainloop.glib
import dbus.service
import gi

gi.require_version("Gcr", "3")
from gi.repository import Gcr, GLib

PROMPTER = "org.gnome.keyring.internal.Prompter"


class Prompter(dbus.service.Object):
    @dbus.service.method(PROMPTER, in_signature="o", sender_keyword="sender")
    def BeginPrompting(self, callback, sender):
        self.exchange, self.asked = Gcr.SecretExchange.new(None), 0
        self.ready(sender, callback, "", self.exchange.begin())

    @dbus.service.method(PROMPTER, in_signature="osa{sv}s", sender_keyword="sender")
    def PerformPrompt(self, callback, kind, properties, exchange, sender):
        self.exchange.receive(exchange)
        self.asked += 1
        if self.asked > 1:
            self.ready(sender, callback, "no", "")
        else:
            self.ready(sender, callback, "yes", self.exchange.send(sys.argv[1], -1))

    @dbus.service.method(PROMPTER, in_signature="o", sender_keyword="sender")
    def StopPrompting(self, callback, sender):
        self.call(sender, callback, "PromptDone", "")

    def ready(self, sender, callback, reply, exchange):
        self.call(sender, callback, "PromptReady", "sa{sv}s", reply, dbus.Dictionary({}, signature="sv"), exchange)

    def call(self, sender, callback, method, signature, *arguments):
        def send():
            bus.call_async(
                sender, callback, PROMPTER + ".Callback", method, signature, arguments, lambda *_: None, lambda *_: None)

        # After the answer to the call that is being handled: gcr takes the two in this order only.
        GLib.idle_add(send)


dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
bus = dbus.SessionBus()
prompter = Prompter(bus, "/org/gnome/keyring/Prompter")
name = dbus.service.BusName("org.gnome.keyring.SystemPrompter", bus)
print("ready", flush=True)
GLib.MainLoop().run()

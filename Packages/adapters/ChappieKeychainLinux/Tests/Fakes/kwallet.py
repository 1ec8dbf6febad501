"""Becomes kwalletd5 with the wallet "kdewallet".

The first argument is open: the wallet is opened as the login's PAM module does it, or closed.
"""
import os
import socket
import subprocess
import sys
import tempfile

import dbus

PROGRAM = ["kwalletd5"]


def pam_login():
    """The arguments and descriptors for a program whose wallet is open, and the process that tells it the key."""
    folder = tempfile.mkdtemp()
    key, our_key = os.pipe()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(folder + "/environment")
    listener.listen(1)
    if os.fork() == 0:
        os.write(our_key, b"k" * 56)
        os.close(our_key)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(folder + "/environment")
        connection.sendall("".join(f"{name}={value}\n" for name, value in os.environ.items()).encode())
        connection.close()
        os._exit(0)
    os.close(our_key)
    os.environ["PAM_KWALLET5_LOGIN"] = "1"
    return PROGRAM + ["--pam-login", str(key), str(listener.fileno())], (key, listener.detach())


# kwalletd5 offers only those wallets to other programs that were there when it started.
arguments, descriptors = pam_login()
first = subprocess.Popen(arguments, pass_fds=descriptors)
for descriptor in descriptors:
    os.close(descriptor)
subprocess.run(["gdbus", "wait", "--session", "--timeout", "60", "org.kde.kwalletd5"], check=True)
wallets = dbus.Interface(dbus.SessionBus().get_object("org.kde.kwalletd5", "/modules/kwalletd5"), "org.kde.KWallet")
assert wallets.isOpen("kdewallet", signature="s")
first.terminate()
first.wait()
del os.environ["PAM_KWALLET5_LOGIN"]
arguments = PROGRAM
if sys.argv[1] == "open":
    arguments, descriptors = pam_login()
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
print("ready", flush=True)
os.execvp(arguments[0], arguments)

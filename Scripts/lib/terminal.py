"""Runs a program in a terminal of its own and answers what it asks."""

import os
import pty
import select
import signal
import termios
import time


def converse(command, environment, answers, patience=60, thinking=0, echoing=()):
    """(exit code, what the terminal showed). `answers` are (question, text): each text is typed once its question shows,
    by a person who thinks for so many seconds before.

    A question is expected with the echo off, unless it is among those `echoing`, and the terminal with it on again in the end.
    """
    process, terminal = pty.fork()
    if process == 0:
        try:
            os.execve(command[0], command, environment)
        finally:
            os._exit(127)
    shown, new, waiting = b"", b"", list(answers)
    try:
        while select.select([terminal], [], [], patience)[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the program has ended
                break
            if not piece:
                break
            shown, new = shown + piece, new + piece
            if waiting and waiting[0][0].encode() in new:
                question, text = waiting.pop(0)
                shown += listen(terminal, thinking)
                assert echoes(terminal) == (question in echoing), f"the echo is wrong after {question!r}: {shown!r}"
                new = b""
                os.write(terminal, text.encode())
        else:
            raise AssertionError(f"nothing for {patience} s after {shown!r}")
        assert not waiting, f"was not asked {waiting[0][0]!r}: {shown!r}"
        assert echoes(terminal), "the terminal was left silent"
        status, process = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), None
    finally:
        if process:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        os.close(terminal)
    return status, shown.decode(errors="replace")


def listen(terminal, seconds):
    """What the terminal shows for so long."""
    end, shown = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0 and select.select([terminal], [], [], left)[0]:
        shown += os.read(terminal, 4096)
    return shown


def echoes(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)

"""Runs a program under strace, and reads what strace has written down."""

import os
import re
import select
import signal
import subprocess

# What a program takes in, and waiting: everything else that it says to the system is written down.
UNSEEN = (
    "read pread64 readv preadv preadv2 recvfrom recvmsg recvmmsg getrandom futex poll ppoll select pselect6 epoll_wait "
    "epoll_pwait epoll_pwait2"
).split()
SENDING = {b"write", b"pwrite64", b"writev", b"pwritev", b"pwritev2", b"sendto", b"sendmsg", b"sendmmsg"}
OPENING = {b"open", b"openat", b"openat2", b"creat"}
HIDDEN = {b"sendfile", b"copy_file_range", b"splice", b"vmsplice", b"tee", b"io_uring_setup", b"process_vm_writev"}

LINE = re.compile(rb"(\d+) +(\w+)\((.*)", re.DOTALL)
DESCRIPTOR = re.compile(rb"\d+<((?:->|[^<>]|<[^<>]*>)*)>")
STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')
WRITABLE = re.compile(rb'(?:openat2?\((?:AT_FDCWD|\d+)<([^>]*)>, |open\(|creat\()"((?:[^"\\]|\\.)*)"(.*)', re.DOTALL)
SHARED = re.compile(rb"PROT_WRITE.*MAP_SHARED.*<")
LIST = rb'\[((?:"(?:[^"\\]|\\.)*"(?:, )?)*)\]'
EXECUTION = re.compile(rb'("(?:[^"\\]|\\.)*"), ' + LIST + b", " + LIST)
ENTRY = re.compile(rb'"(?:[^"\\]|\\.)*"')
CONNECTION = re.compile(
    rb'\d+<(socket:\[\d+\])>, \{sa_family=\w+, '
    rb'(?:sun_path=(@?)"([^"]*)"|sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\))'
)


def command(log, words):
    """The words that run `words` under strace. The program forbids others to look into its memory, and unless strace is
    root's that means strace as well: so the call that does it, prctl, only seems to succeed."""
    unseen = ",".join("?" + name for name in UNSEEN)
    return ["strace", "-f", "-y", "-v", "-s", str(1 << 24), "--seccomp-bpf", "-e", "inject=prctl:retval=0",
            "-e", "trace=!" + unseen, "-o", log, *words]


def check(log):
    """An AssertionError with a sentence where strace can't be used."""
    done = subprocess.run(command(log, ["true"]), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"strace can't trace here: {done.stderr.strip()}"


class Traced:
    """A program that runs under strace, in a session of its own; `printed` are strace's names of its two outputs."""

    def __init__(self, words, log, **options):
        self.log, self.begun = log, b""
        self.process = subprocess.Popen(
            command(log, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True, **options
        )
        streams = (self.process.stdout, self.process.stderr)
        self.printed = {f"pipe:[{os.fstat(stream.fileno()).st_ino}]".encode() for stream in streams}

    def interrupt_answer(self):
        """Ctrl-C as soon as it has printed something: everybody in the foreground gets it; strace does not mind."""
        assert select.select([self.process.stdout], [], [], 60)[0], "it does not answer"
        self.begun = self.process.stdout.read(1)
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self, input=None, timeout=120):
        """(status, standard output, standard error) once it has ended."""
        output, errors = self.process.communicate(input, timeout=timeout)
        return self.process.returncode, self.begun + output, errors

    def kill(self):
        """Ends it where it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()

    def calls(self):
        with open(self.log, "rb") as stream:
            return [Call(line) for line in stream.read().split(b"\n") if line]


class Call:
    """A line of the log."""

    def __init__(self, line):
        match = LINE.match(line)
        self.line = line
        self.name, self.arguments = (match[2], match[3]) if match else (b"", b"")

    @property
    def sends(self):
        return self.name in SENDING

    @property
    def is_hidden(self):
        """Whether it carries bytes past strace, also into a file that is part of the memory."""
        return self.name in HIDDEN or (self.name == b"mmap" and SHARED.search(self.arguments) is not None)

    @property
    def destination(self):
        """What the first descriptor is, such as `socket:[7]`, `pipe:[7]` or a path."""
        match = DESCRIPTOR.match(self.arguments)
        return match[1] if match else b""

    @property
    def descriptor(self):
        return self.arguments.split(b"<", 1)[0]

    @property
    def payload(self):
        """The bytes that it sends, with strace's escapes."""
        return b"".join(STRING.findall(self.arguments))

    @property
    def is_cut(self):
        return (self.sends or self.name.startswith(b"exec")) and re.search(rb'"\.\.\.', self.arguments) is not None

    @property
    def written_path(self):
        """The path of the file that it opens for writing, if it does."""
        match = WRITABLE.search(self.line) if self.name in OPENING else None
        if not match or not (self.name == b"creat" or re.search(rb"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", match[3])):
            return None
        return os.path.join(match[1] or b"", match[2]).decode(errors="replace")

    @property
    def execution(self):
        """(path and arguments, environment) of a program that is started, each a list of quoted strings."""
        match = EXECUTION.search(self.arguments) if self.name == b"execve" else None
        return ([match[1], *ENTRY.findall(match[2])], ENTRY.findall(match[3])) if match else None

    @property
    def connection(self):
        """(`socket:[7]`, where it is connected to: `127.0.0.1:80`, or the path of a local socket)."""
        match = CONNECTION.match(self.arguments) if self.name == b"connect" else None
        if not match:
            return None
        return match[1], match[5] + b":" + match[4] if match[4] else match[2] + match[3]

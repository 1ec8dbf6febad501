@_spi(ChappieInternals) import ChappieProcess
import Dispatch
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The world as the desktop adapters see it: environment variables, programs, the terminal.
///
/// The adapters decide on this alone, so that another world can be given to them:
/// ```swift
/// let browser = XDGOpenBrowser(environment: DesktopEnvironment(variables: ["PATH": "/opt/kiosk/bin", "DISPLAY": ":1"]))
/// ```
public struct DesktopEnvironment: Sendable {
    let variables: [String: String]
    var isExecutable: @Sendable (String) -> Bool = { ProgramInvocation.isExecutable($0) }
    var isSocket: @Sendable (String) -> Bool = { Self.has(S_IFSOCK, at: $0) }
    var run: @Sendable (ChildProcess) async -> ChildOutcome = { await $0.run() }
    /// Writes to the user's terminal; `false` when there is none.
    var writeToTerminal: @Sendable ([UInt8]) async -> Bool = { bytes in
        // On a thread of its own, since a stopped terminal blocks.
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "chappie.terminal").async {
                continuation.resume(returning: TerminalDevice.current()?.write(bytes) ?? false)
            }
        }
    }

    /// The machine, under other environment variables.
    ///
    /// - Parameter variables: Programs are looked up in its `PATH` and started with these variables only.
    public init(variables: [String: String]) { self.variables = variables }

    /// This process's environment, as it is now.
    public static var current: DesktopEnvironment {
        DesktopEnvironment(variables: ProcessInfo.processInfo.environment)
    }

    /// A variable that says something: an empty one is as good as none.
    subscript(_ name: String) -> String? { variables[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// Where the program `name` is, as `PATH` has it.
    func executable(_ name: String) -> String? {
        ProgramInvocation.find(name, in: self["PATH"], where: isExecutable)
    }

    /// Whether windows can be shown.
    var hasDisplay: Bool { self["WAYLAND_DISPLAY"] != nil || self["DISPLAY"] != nil }

    /// Whether a session bus is running that programs will find. One that would have to be started first is none.
    var hasSessionBus: Bool {
        if let address = self["DBUS_SESSION_BUS_ADDRESS"] {
            return address.split(separator: ";").contains { !$0.hasPrefix("autolaunch:") }
        }
        guard let folder = self["XDG_RUNTIME_DIR"], folder.hasPrefix("/") else { return false }
        return isSocket(folder + "/bus")
    }

    private static func has(_ type: mode_t, at path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == type
    }
}

/// A terminal to write to; never a pipe or a file.
struct TerminalDevice {
    private let file: FileDescriptor

    /// Opens the terminal at `path`; `nil` when there is none.
    ///
    /// A description of its own, because not to block is a property of the description, and standard error's is shared
    /// with other programs.
    init?(path: String) {
        file = FileDescriptor(open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC))
        guard file.isOpen, isatty(file.number) == 1 else { return nil }
    }

    /// The process's controlling terminal, otherwise the one behind standard error.
    static func current() -> TerminalDevice? {
        TerminalDevice(path: "/dev/tty") ?? TerminalDevice(path: "/proc/self/fd/\(STDERR_FILENO)")
    }

    /// Writes `bytes`; `false` when the terminal does not take them within half a second, as one that is stopped.
    func write(_ bytes: [UInt8]) -> Bool {
        let end = ContinuousClock.now + .milliseconds(500)
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { writeSome($0, to: file.number) }
            if count > 0 {
                rest = rest.dropFirst(count)
                continue
            }
            let left = end - .now
            guard count < 0, errno == EAGAIN || errno == EINTR, left > .zero else { return false }
            var ready = pollfd(fd: file.number, events: Int16(POLLOUT), revents: 0)
            _ = poll(&ready, 1, Int32(left / .milliseconds(1)) + 1)
        }
        return true
    }
}

/// write(2), which a method of the same name would hide.
private func writeSome(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int {
    write(descriptor, bytes.baseAddress, bytes.count)
}

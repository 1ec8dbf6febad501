@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieProcess
import Dispatch
import FoundationEssentials
import SystemPackage

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The surroundings of the desktop adapters: environment variables, programs, and the terminal.
///
/// The adapters use nothing else, so that a program or a test can provide other surroundings:
/// ```swift
/// let browser = XDGOpenBrowser(environment: DesktopEnvironment(variables: ["PATH": "/opt/kiosk/bin", "DISPLAY":
/// ":1"]))
/// ```
public struct DesktopEnvironment: Sendable {
    let variables: [String: String]
    var isExecutable: @Sendable (String) -> Bool = { ProgramInvocation.isExecutable($0) }
    var isSocket: @Sendable (String) -> Bool = { ProgramInvocation.has(S_IFSOCK, at: $0) }
    var run: @Sendable (ChildProcess) async -> ChildOutcome = { await $0.run() }
    var output: @Sendable (ChildProcess, _ limit: Int) async -> [UInt8]? = { await $0.output(upTo: $1) }
    /// Writes to the user's terminal. Returns `false` if the process has no terminal or the terminal does not accept
    /// the bytes.
    var writeToTerminal: @Sendable ([UInt8]) async -> Bool = { bytes in
        // A stopped terminal blocks the write, so it runs on its own thread.
        await DispatchQueue(label: "chappie.terminal").run { TerminalDevice.current()?.write(bytes) ?? false }
    }

    /// Creates an environment of this machine with other environment variables.
    ///
    /// - Parameter variables: The only variables of the programs that the adapters start. `PATH` among them is the list
    ///   of folders in which these programs are found.
    public init(variables: [String: String]) { self.variables = variables }

    /// The environment of this machine, with the current environment variables of the process.
    public static var current: DesktopEnvironment {
        DesktopEnvironment(variables: ProcessInfo.processInfo.environment)
    }

    /// Returns the value of a variable, or `nil` if the variable is missing or empty.
    subscript(_ name: String) -> String? { variables[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// Returns the path of the program `name` in the folders of `PATH`, or `nil` if it is not there.
    func executable(_ name: String) -> String? {
        ProgramInvocation.find(name, in: self["PATH"], where: isExecutable)
    }

    /// Whether a program can show windows.
    var hasDisplay: Bool { self["WAYLAND_DISPLAY"] != nil || self["DISPLAY"] != nil }

    /// Whether there is a running session bus that programs will find. A bus that must be started first does not count.
    var hasSessionBus: Bool {
        if let address = self["DBUS_SESSION_BUS_ADDRESS"] {
            return address.split(separator: ";").contains { !$0.hasPrefix("autolaunch:") }
        }
        guard let folder = self["XDG_RUNTIME_DIR"], folder.hasPrefix("/") else { return false }
        return isSocket(folder + "/bus")
    }
}

/// A terminal to write to. It is never a pipe or a file.
struct TerminalDevice {
    private let file: Descriptor

    /// Opens the terminal at `path`. Returns `nil` if there is no terminal at `path`.
    ///
    /// It opens a new file description, because "non-blocking" is a property of the description, and other programs
    /// share the description of standard error.
    init?(path: String) {
        guard let file = try? Descriptor(path, .writeOnly, .nonBlocking), isatty(file.number) == 1 else { return nil }
        self.file = file
    }

    /// Returns the process's controlling terminal, or otherwise the terminal behind standard error.
    static func current() -> TerminalDevice? {
        TerminalDevice(path: "/dev/tty") ?? TerminalDevice(path: "/proc/self/fd/\(STDERR_FILENO)")
    }

    /// Writes `bytes`. Returns `false` if the terminal does not accept them within half a second, for example because
    /// it is stopped.
    func write(_ bytes: [UInt8]) -> Bool {
        let end = ContinuousClock.now + .milliseconds(500)
        var rest = bytes[...]
        while !rest.isEmpty {
            do {
                if let count = try file.writeSome(rest) {
                    rest = rest.dropFirst(count)
                } else if end <= .now || !file.wait(for: POLLOUT, limit: end - .now) {
                    return false
                }
            } catch {
                return false
            }
        }
        return true
    }
}

import Foundation

/// A program that the tests need on the machine.
enum Tool: String {
    case dbusDaemon = "dbus-daemon"
    case keyringDaemon = "gnome-keyring-daemon"
    case gdbus
    case secretTool = "secret-tool"
    case python = "/usr/bin/python3"
    case keePassXC = "keepassxc"
    case keePassXCTool = "keepassxc-cli"

    /// The Debian packages that bring it.
    var packages: String {
        switch self {
        case .dbusDaemon: "dbus-daemon"
        case .keyringDaemon: "gnome-keyring"
        case .gdbus: "libglib2.0-bin"
        case .secretTool: "libsecret-tools"
        case .python: "python3 python3-dbusmock gir1.2-gcr-3"
        case .keePassXC, .keePassXCTool: "keepassxc"
        }
    }

    /// Where it is.
    ///
    /// - Throws: ``Missing``, whose words say what to install.
    func path() throws -> URL {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
        let candidates = rawValue.hasPrefix("/") ? [rawValue] : folders.map { "\($0)/\(rawValue)" }
        guard let path = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
            throw Missing(description: "\(rawValue) is missing: apt-get install \(packages)")
        }
        return URL(fileURLWithPath: path)
    }

    struct Missing: Error, CustomStringConvertible {
        let description: String
    }

    struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    /// Runs it to its end and gives what it wrote.
    ///
    /// - Parameter input: What it reads from its standard input.
    @discardableResult
    func run(_ arguments: [String], environment: [String: String], input: String = "") async throws -> String {
        try await onAThreadOfItsOwn {
            let launch = try Launch(self, arguments, environment: environment, input: input)
            let text = String(decoding: launch.output.readDataToEndOfFile(), as: UTF8.self)
            launch.process.waitUntilExit()
            guard launch.process.terminationStatus == 0 else {
                throw Failed(description: "\(rawValue) ended with \(launch.process.terminationStatus): \(text)")
            }
            return text
        }
    }
}

import Foundation

/// A program that the tests need on the machine.
enum Tool: String {
    case xclip
    case xvfb = "Xvfb"
    case dbusDaemon = "dbus-daemon"
    case gdbus
    case busctl
    case python = "python3"

    /// The Debian packages that bring it.
    var packages: String {
        switch self {
        case .xclip: "xclip"
        case .xvfb: "xvfb"
        case .dbusDaemon: "dbus-daemon"
        case .gdbus: "libglib2.0-bin"
        case .busctl: "systemd"
        case .python: "python3 python3-dbusmock"
        }
    }

    struct Missing: Error, CustomStringConvertible {
        let description: String
    }

    struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    /// Debian's own programs only: its Python is the one that has the modules.
    func path() throws -> URL {
        let path = "/usr/bin/\(rawValue)"
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw Missing(description: "\(path) is missing: apt-get install \(packages)")
        }
        return URL(fileURLWithPath: path)
    }

    func require() throws { _ = try path() }

    /// Runs it to its end and gives what it wrote.
    @discardableResult
    func run(_ arguments: [String], environment: [String: String]) throws -> String {
        let process = Process()
        process.executableURL = try path()
        process.arguments = arguments
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failed(description: "\(rawValue) ended with \(process.terminationStatus): \(text)")
        }
        return text
    }

    /// Starts it and waits for the first line that it prints.
    ///
    /// - Throws: ``Failed`` when it ends without one, with what it wrote to its standard error.
    func start(_ arguments: [String], environment: [String: String]) throws -> (process: Process, line: String) {
        let process = Process()
        process.executableURL = try path()
        process.arguments = arguments
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        var text = ""
        while !text.contains("\n") {
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else {
                process.waitUntilExit()
                throw Failed(description: "\(rawValue) ended with \(process.terminationStatus) before it was ready")
            }
            text += String(decoding: more, as: UTF8.self)
        }
        return (process, text.prefix { $0 != "\n" }.description)
    }
}

extension Process {
    /// Ends it for good, and waits for that.
    func end() {
        kill(processIdentifier, SIGKILL)
        waitUntilExit()
    }
}

import Foundation

/// Runs a program of the machine to its end.
enum Command {
    struct Result {
        let status: Int32
        let output: [UInt8]
        let errors: String

        var text: String { String(decoding: output, as: UTF8.self) }
    }

    static func run(_ arguments: [String], input: [UInt8] = []) throws -> Result {
        let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        // Files, not pipes: neither side can block the other.
        let paths = ["in", "out", "err"].map { directory.appending(path: $0) }
        try Data(input).write(to: paths[0])
        for path in paths[1...] { try Data().write(to: path) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.standardInput = try FileHandle(forReadingFrom: paths[0])
        process.standardOutput = try FileHandle(forWritingTo: paths[1])
        process.standardError = try FileHandle(forWritingTo: paths[2])
        try process.run()
        process.waitUntilExit()
        return Result(
            status: process.terminationStatus, output: Array(try Data(contentsOf: paths[1])),
            errors: String(decoding: try Data(contentsOf: paths[2]), as: UTF8.self))
    }
}

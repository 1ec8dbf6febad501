import Foundation
import TestFixtures

/// Runs a program of the machine to its end.
enum Command {
    struct Result {
        let status: Int32
        let output: [UInt8]

        var text: String { String(decoding: output, as: UTF8.self) }
    }

    static func run(_ arguments: [String], input: [UInt8] = []) throws -> Result {
        // Files, not pipes: neither side can block the other.
        let directory = try TemporaryDirectory()
        try Data(input).write(to: URL(filePath: directory.path("in")))
        let program = try RunningProgram(
            "/usr/bin/env", arguments, input: .file(directory.path("in")), output: .file(directory.path("out")),
            errors: .file(directory.path("err")))
        let status = program.wait()
        return Result(
            status: Int32(status), output: Array(try Data(contentsOf: URL(filePath: directory.path("out")))))
    }
}

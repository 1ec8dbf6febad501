import Foundation
import TestFixtures

/// The program `FileStoreWriter`, running. What it prints is read, and its end awaited, on threads of the tests' own.
enum FileStoreWriter {
    static func start(_ arguments: [String]) throws -> RunningProgram {
        // SwiftPM puts the programs of a package beside its tests.
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = URL(fileURLWithPath: tests).deletingLastPathComponent().path + "/FileStoreWriter"
        return try RunningProgram(program, arguments, input: .held, output: .pipe, errors: .inherited)
    }
}

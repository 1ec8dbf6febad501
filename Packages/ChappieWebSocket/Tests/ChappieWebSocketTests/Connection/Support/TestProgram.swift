import Foundation

/// Runs a program of the system for a test.
struct TestProgram {
    let name: String
    /// The Debian package that brings it.
    let package: String

    static let nginx = TestProgram(name: "nginx", package: "nginx")
    static let tinyproxy = TestProgram(name: "tinyproxy", package: "tinyproxy")
    static let openssl = TestProgram(name: "openssl", package: "openssl")

    /// Starts it and returns; the caller ends it. What it prints goes to the file `log`.
    func start(_ arguments: [String], log: String) throws -> ChildProcess {
        try ChildProcess(path(), arguments, output: log, errors: log)
    }

    /// Runs it to its end, which must be a good one; returns what it printed.
    @discardableResult
    func run(_ arguments: [String], input: String = "/dev/null") throws -> Data {
        let base = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        let (output, errors) = (base + ".out", base + ".err")
        defer {
            for file in [output, errors] { try? FileManager.default.removeItem(atPath: file) }
        }
        let status = try ChildProcess(path(), arguments, input: input, output: output, errors: errors).wait()
        guard status == 0 else {
            let complaint = (try? String(contentsOfFile: errors, encoding: .utf8)) ?? ""
            throw ChildProcess.Problem(
                description: "\(name) \(arguments.joined(separator: " ")) ended with \(status): \(complaint)")
        }
        let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: output))
        return try handle.readToEnd() ?? Data()
    }

    private func path() throws -> String {
        for directory in ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin"] {
            let path = "\(directory)/\(name)"
            if FileManager.default.isExecutableFile(atPath: path) { return path }
        }
        throw ChildProcess.Problem(description: "\(name) is missing; install it with: apt-get install \(package)")
    }
}

import ChappieCore
import Foundation
import TestFixtures

/// One exchange made by curl: the plainest real client there is.
struct Curl: Sendable {
    let exitStatus: Int
    let status: Int
    let headers: [String: String]
    let body: String

    var json: ChappieJSON { (try? ChappieJSON(parsing: body)) ?? .null }

    /// The data of every server-sent event, as JSON.
    var events: [ChappieJSON] {
        body.split(separator: "\n").compactMap { line in
            line.hasPrefix("data: ") ? try? ChappieJSON(parsing: String(line.dropFirst(6))) : nil
        }
    }

    init(
        _ method: String, _ url: String, headers: [String] = [], form: String? = nil, json: ChappieJSON? = nil,
        body: [UInt8]? = nil, options: [String] = []
    ) throws {
        var arguments = ["curl", "-sS", "-N", "-i", "--max-time", "120", "-X", method, url] + options
        for header in headers + (json == nil ? [] : ["content-type: application/json"]) { arguments += ["-H", header] }
        let input = body ?? json?.serializedBytes() ?? form.map { Array($0.utf8) }
        if input != nil { arguments += ["--data-binary", "@-"] }
        let result = try Self.run(arguments, input: input ?? [])
        exitStatus = result.status
        var rest = String(decoding: result.output, as: UTF8.self)[...]
        var fields: [String: String] = [:]
        var code = 0
        // An interim response (100 Continue) comes before the real one.
        while code == 0 || code == 100, let end = rest.range(of: "\r\n\r\n") {
            let lines = rest[..<end.lowerBound].split(separator: "\r\n")
            rest = rest[end.upperBound...]
            code = lines.first.flatMap { Int($0.split(separator: " ").dropFirst().first ?? "") } ?? 0
            fields = [:]
            for line in lines.dropFirst() {
                let halves = line.split(separator: ":", maxSplits: 1)
                if halves.count == 2 { fields[halves[0].lowercased()] = String(halves[1].drop { $0 == " " }) }
            }
        }
        status = code
        self.headers = fields
        self.body = String(rest)
    }

    /// Runs a program of the machine to its end.
    static func run(_ arguments: [String], input: [UInt8] = []) throws -> (status: Int, output: [UInt8]) {
        // Files, not pipes: neither side can block the other.
        let directory = try TemporaryDirectory()
        try Data(input).write(to: URL(filePath: directory.path("in")))
        let program = try RunningProgram(
            "/usr/bin/env", arguments, input: .file(directory.path("in")), output: .file(directory.path("out")),
            errors: .file(directory.path("err")))
        let status = program.wait()
        return (Int(status), Array(try Data(contentsOf: URL(filePath: directory.path("out")))))
    }
}

import ChappieCore
import ChappieSimulator
import Foundation

/// One exchange made by curl: the plainest real client there is.
struct Curl: Sendable {
    let exitStatus: Int32
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
        var arguments = ["curl", "-sS", "-N", "-i", "--max-time", "30", "-X", method, url] + options
        for header in headers { arguments += ["-H", header] }
        var input: [UInt8] = body ?? []
        if let form { input = Array(form.utf8) }
        if let json {
            input = json.serializedBytes()
            arguments += ["-H", "content-type: application/json"]
        }
        if form != nil || json != nil || body != nil { arguments += ["--data-binary", "@-"] }
        let result = try Command.run(arguments, input: input)
        exitStatus = result.status
        var rest = result.text[...]
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
}

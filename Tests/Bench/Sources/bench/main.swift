// Usage: bench [SECONDS [NAME]]: every measure whose name contains NAME, for that long each (default 1).
//        bench threads …: what a thread store costs (ThreadCosts.swift).
//        bench streams …: what many answers at once cost (Streams.swift).
// One JSON object a line: {"measure": …, "gigabytes_per_second": …}; for tools {"measure": …, "wall_ms": …, "cpu_ms": …}
import ChappieCore

@testable import ChappieWebSocket

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

let arguments = CommandLine.arguments
if arguments.count > 1, arguments[1] == "threads" {
    try await ThreadCosts.measure(Array(arguments.dropFirst(2)))
    exit(0)
}
if arguments.count > 1, arguments[1] == "streams" {
    try await Streams.measure(Array(arguments.dropFirst(2)))
    exit(0)
}
let seconds = arguments.count > 1 ? Double(arguments[1]) ?? 1 : 1
let name = arguments.count > 2 ? arguments[2] : ""

var measures: [any Measure] = [170, 64 << 10, 1 << 20].map { Masking(size: $0) }
for size in [170, 64 << 10, 1 << 20] {
    measures += [false, true].map { Decoding(size: size, isCompressed: $0) }
}
for size in [170, 64 << 10] {
    measures += [false, true].map { Encoding(size: size, isCompressed: $0) }
}
for measure in measures where name.isEmpty || measure.name.contains(name) { measure.measure(for: seconds) }
if name.isEmpty || "tool round".contains(name) { try await ToolRounds.measure() }

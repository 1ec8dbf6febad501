// Usage: fuzz TARGET [libFuzzer's options and corpus folders]
import CFuzzer
import Glibc

guard CommandLine.argc > 1, let target = Target(rawValue: CommandLine.arguments[1]) else {
    print(Target.allCases.map(\.rawValue).joined(separator: "\n"))
    exit(64)
}

// libFuzzer sees the program's name and what follows the target.
var count = CommandLine.argc - 1
var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv + 1
CommandLine.unsafeArgv[1] = CommandLine.unsafeArgv[0]

let input: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt =
    switch target {
    case .sse: { readServerSentEvents(UnsafeBufferPointer(start: $0, count: $1)) }
    case .responses: { readResponsesEvents(UnsafeBufferPointer(start: $0, count: $1)) }
    case .json: { readJSON(UnsafeBufferPointer(start: $0, count: $1)) }
    case .claims: { readClaims(UnsafeBufferPointer(start: $0, count: $1)) }
    case .frames: { readWebSocketFrames(UnsafeBufferPointer(start: $0, count: $1)) }
    case .upgrade: { readWebSocketUpgrade(UnsafeBufferPointer(start: $0, count: $1)) }
    case .deflate: { compressWebSocketMessages(UnsafeBufferPointer(start: $0, count: $1)) }
    case .schema: { holdAgainstSchema(UnsafeBufferPointer(start: $0, count: $1)) }
    case .mcp: { hearMCPServer(UnsafeBufferPointer(start: $0, count: $1)) }
    case .markdown: { drawMarkdown(UnsafeBufferPointer(start: $0, count: $1)) }
    case .manifest: { readManifest(UnsafeBufferPointer(start: $0, count: $1)) }
    }
exit(LLVMFuzzerRunDriver(&count, &arguments, input))

// Usage: autobahn URL AGENT PARALLEL [CA-FILE]
// Runs every case of the fuzzing server at URL, PARALLEL of them at a time, then has it write its report for AGENT.
import ChappieCore
import ChappieWebSocket

#if canImport(Network)
    import ChappieURLSession
#endif
#if canImport(Glibc)
    import Glibc
#endif

let arguments = CommandLine.arguments
guard arguments.count >= 4, let parallel = Int(arguments[3]), parallel > 0 else {
    print("usage: autobahn URL AGENT PARALLEL [CA-FILE]")
    exit(64)
}
// The server counts every frame: no pings of ours may come between.
let policy = ChappieNetworkPolicy(
    proxy: .none, extraCAFile: arguments.count > 4 ? arguments[4] : nil,
    deadlines: ChappieDeadlines(liveness: .seconds(1200)))
#if canImport(Network)
    let transport = StreamWebSocketTransport(
        over: NetworkByteStreamTransport(policy: policy), deadlines: policy.deadlines)
#else
    let transport = CurlWebSocketTransport(policy: policy)
#endif
let server = FuzzingServer(transport: transport, base: arguments[1], agent: arguments[2])
do {
    try await server.runEveryCase(parallel: parallel)
} catch {
    print("  the client gave up: \(error)")
    exit(1)
}

import ChappieCore
import ChappieWebSocket
import FoundationEssentials
import Glibc
import HTTPTypes

// `ExitWhileConnecting URL CAFILE MICROSECONDS`: opens WebSockets one after the other in several tasks, and exits in
// the middle of that, that long after it has begun.

let arguments = CommandLine.arguments
guard arguments.count == 4, let url = URL(string: arguments[1]), let microseconds = useconds_t(arguments[3]) else {
    exit(64)
}
let transport = CurlWebSocketTransport(policy: ChappieNetworkPolicy(proxy: .none, extraCAFile: arguments[2]))
for _ in 0..<8 {
    Task.detached { while true { _ = try? await transport.open(url, headerFields: [:]) } }
}
usleep(microseconds)
exit(0)

import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import Dispatch
import HTTPTypes

/// Turns in memory, for a test that counts instructions.
///
/// `ObservedTurns TURNS DELTAS none|deaf`: asks so often for an answer of so many deltas, without an observer, or with one
/// that does nothing.
@main
enum ObservedTurns {
    private struct Deaf: ChappieObserver {
        func began(
            _ operation: ChappieOperation, in parent: (any ChappieObservation)?
        ) -> (any ChappieObservation)? { nil }
        func happened(_ fact: ChappieFact) {}
    }

    // Valgrind does not survive the end of the first thread, which an asynchronous `main` leaves.
    static func main() {
        let done = DispatchSemaphore(value: 0)
        Task.detached {
            do {
                try await run()
            } catch {
                fatalError("\(error)")
            }
            done.signal()
        }
        done.wait()
    }

    private static func run() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let turns = Int(arguments[1]), let count = Int(arguments[2]) else {
            fatalError("ObservedTurns TURNS DELTAS none|deaf")
        }
        let deltas = (0..<count).map { #"data: {"type":"response.output_text.delta","delta":"word\#($0) "}"# }
        let end = #"data: {"type":"response.completed","response":{"id":"resp_1","status":"completed"}}"#
        let body = (deltas + [end]).map { "\($0)\n\n" }.joined()
        let transport = ScriptedHTTPTransport { request in
            request.url.path().hasSuffix("/responses")
                ? .response(headerFields: [.contentType: "text/event-stream"], body: body)
                : .response(status: .notFound, body: "")
        }
        let client = ChappieClient(
            configuration: ChappieConfiguration(streamingTransportPolicy: .httpSSEOnly), transport: transport,
            credentials: SeededAuth().manager(transport: transport), observer: arguments[3] == "deaf" ? Deaf() : nil)
        for _ in 0..<turns {
            _ = try await client.send("Hello")
            await client.clearContext()
        }
    }
}

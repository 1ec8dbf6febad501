// The page on errors.
import ChappieSDK
import Foundation
import SwiftUI

struct AssistantView: View {
    let client: ChappieClient
    let transcripts: Transcripts
    @StateObject private var notices = Notices()
    @State private var answer = ""

    var body: some View {
        Text(answer)
        Button("Ask") { Task { await ask() } }
        Button("Ask and watch") { Task { await watch() } }
    }

    private func ask() async {
        do {
            let reply = try await client.send("Hello")
            answer = reply
        } catch ChappieClientError.missingCredential {
            notices.isSignInShown = true
        } catch ChappieClientError.usageLimitReached(let limit) {
            let planName = limit.plan?.displayName ?? "your current plan"
            let resetTime = limit.resetsAt.map { $0.formatted(date: .abbreviated, time: .shortened) }
            notices.show("\(planName): \(resetTime ?? "") \(limit.message ?? limit.type)")
            print("Resets:", limit.resetsAt as Any, limit.resetsInSeconds as Any)
            print(limit.rateLimit?.primary?.usedPercent as Any, limit.rateLimit?.secondary?.resetsAt as Any)
        } catch ChappieClientError.reauthenticationRequired(let message) {
            notices.show(message)
        } catch ChappieClientError.httpError(let status, let body) {
            logger.error("HTTP \(status): \(body)")
        } catch ChappieClientError.streamingTransportReplayDiverged(let partial) {
            notices.show(partial.isEmpty ? "Try again" : partial)
        } catch ChappieClientError.toolLoopLimitExceeded(let limit) {
            print("Model exceeded \(limit) tool call rounds — possible tool loop")
        } catch {
            print(error.localizedDescription)
        }
    }

    private func watch() async {
        let handle = client.startStream(.user("Hello"))
        do {
            for try await event in handle.events {
                if case .textDelta(let text) = event { answer += text }
            }
        } catch is CancellationError {
            // The app has cancelled the stream.
        } catch let error as URLError where error.code == .cancelled {
            // The same.
        } catch {
            logger.error("Stream failed: \(error.localizedDescription)")
            notices.show("The answer was cut.")
        }
    }
}

/// Two clients that wait after a 429 in another way than the default.
@MainActor func patientClients() -> [ChappieClient] {
    let client = Chappie.client(
        rateLimitBackoff: ChappieRateLimitBackoffPolicy(
            maxRetries: 3,
            initialDelay: 1,
            maximumDelay: 15
        )
    )
    let noBackoffClient = Chappie.client(rateLimitBackoff: .disabled)
    return [client, noBackoffClient]
}

import ChappieClient
import ChappieCore

/// A turn as its stream told of it.
struct ObservedTurn: Sendable {
    var text = ""
    var responseID = ""
    var limits: [ChappieUsageLimitSnapshot] = []

    init(_ events: AsyncThrowingStream<ChappieStreamEvent, any Error>) async throws {
        for try await event in events {
            switch event {
            case .textDelta(let delta): text += delta
            case .usageLimits(let snapshot): limits.append(snapshot)
            case .completed(let response): responseID = response.id
            default: continue
            }
        }
    }
}

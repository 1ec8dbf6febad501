import ChappieAuth
import ChappieTesting
import Testing

/// A session over a ``Stand``, and what it went through.
@MainActor
struct SessionStand {
    let stand: Stand
    let notifier = RecordingNotifier()
    let session: ChappieAuthSession

    init(_ seed: SeededAuth? = nil, _ answers: [String: [ScriptedHTTPAnswer]] = [:]) {
        stand = Stand(seed, answers)
        session = ChappieAuthSession(credentials: stand.manager, notifier: notifier)
    }

    /// A service on which a sign-in succeeds after `pending` polls in vain.
    nonisolated static func signingIn(pending: Int = 0, as auth: SeededAuth) -> [String: [ScriptedHTTPAnswer]] {
        [
            Service.usercode: [.deviceCode],
            Service.poll: Array(repeating: .pending, count: pending) + [.approved],
            Service.token: [.tokens(auth)], Service.revoke: [.ok], Service.backend: [.ok],
        ]
    }

    /// Everything up to and including the first state that ends a sign-in.
    func linkStates(
        from updates: AsyncStream<ChappieDeviceLinkState>
    ) async -> [ChappieDeviceLinkState] {
        var seen: [ChappieDeviceLinkState] = []
        for await state in updates {
            seen.append(state)
            switch state {
            case .linked, .expired, .cancelled, .failed: return seen
            default: continue
            }
        }
        return seen
    }
}

extension ChappieDeviceLinkState {
    var name: String {
        switch self {
        case .idle: "idle"
        case .requestingCode: "requestingCode"
        case .awaitingUserCode: "awaitingUserCode"
        case .polling: "polling"
        case .linked: "linked"
        case .expired: "expired"
        case .cancelled: "cancelled"
        case .failed: "failed"
        }
    }
}

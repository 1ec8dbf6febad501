import ChappieAuth
import Synchronization

/// Asks a source once, for all that wait at the same time and all that come later, and keeps the answer.
final class PassphraseMemory: Sendable {
    private struct State {
        var secret: Secret?
        var question: Task<Void, Never>?
        /// Tells the answer of this question from that of one that was given up.
        var round = 0
        var waiting: [ObjectIdentifier: PendingCall<Secret>] = [:]
    }

    private let source: any PassphraseSource
    private let state = Mutex(State())

    init(_ source: any PassphraseSource) { self.source = source }

    var isKnown: Bool { state.withLock { $0.secret != nil } }

    /// The passphrase. A question that fails is not remembered; one that nobody waits for any more is cancelled.
    ///
    /// - Throws: what the source throws; `noPassphrase` when it has none; `failed` when the task is cancelled.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret {
        let call = PendingCall<Secret>()
        defer { leave(call) }
        return try await call.outcome { join(call, purpose) }
    }

    /// Puts `secret` in the place of what was answered.
    func replace(with secret: Secret) { state.withLock { $0.secret = secret } }

    /// The next one who needs it asks again.
    func forget() { state.withLock { $0.secret = nil } }

    private func join(_ call: PendingCall<Secret>, _ purpose: PassphrasePurpose) {
        let known = state.withLock { state -> Secret? in
            if let secret = state.secret { return secret }
            state.waiting[ObjectIdentifier(call)] = call
            if state.question == nil {
                let round = state.round
                state.question = Task { await ask(purpose, round) }
            }
            return nil
        }
        if let known { call.finish(.success(known)) }
    }

    private func leave(_ call: PendingCall<Secret>) {
        let question = state.withLock { state -> Task<Void, Never>? in
            state.waiting[ObjectIdentifier(call)] = nil
            guard state.waiting.isEmpty, let question = state.question else { return nil }
            state.question = nil
            state.round += 1
            return question
        }
        question?.cancel()
    }

    private func ask(_ purpose: PassphrasePurpose, _ round: Int) async {
        let answer: PendingCall<Secret>.Outcome
        do throws(CredentialStoreError) {
            guard let secret = try await source.passphrase(for: purpose) else {
                throw .noPassphrase("no source of one is set up")
            }
            guard !secret.isEmpty else { throw .noPassphrase("what was given is empty") }
            answer = .success(secret)
        } catch {
            answer = .failure(error)
        }
        let waiting = state.withLock { state -> [PendingCall<Secret>] in
            guard state.round == round else { return [] }
            state.round += 1
            state.question = nil
            state.secret = try? answer.get()
            defer { state.waiting = [:] }
            return Array(state.waiting.values)
        }
        for call in waiting { call.finish(answer) }
    }
}

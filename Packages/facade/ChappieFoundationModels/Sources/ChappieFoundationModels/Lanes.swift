import ChappieClient
import ChappieCore
import Synchronization

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

#if canImport(FoundationModels, _version: 2) || canImport(FoundationModelsStandIn)

    /// The connections of one user. Each serves one request at a time, and usually one session.
    ///
    /// A request does not name its session. It gets the free connection whose last transcript has the longest common
    /// beginning with the request's transcript.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    final class Lanes: Sendable {
        /// A client that is in use by one request.
        struct Lane: Sendable {
            let client: ChappieClient
            /// The ids of the entries of the last request that succeeded, and of its answer.
            fileprivate var entries: [String] = []
        }

        private struct State {
            /// The lanes that no request uses, from the least to the most recently used one.
            var idle: [Lane] = []
            /// The rounds by the id of their first entry, and these ids from the oldest round to the newest.
            var rounds: [String: SentRound] = [:]
            var order: [String] = []
            var size = 0
        }

        static let idleLimit = 8
        private static let sizeLimit = 16 << 20

        private let state = Mutex(State())
        private let makeClient: @Sendable () -> ChappieClient

        init(makeClient: @escaping @Sendable () -> ChappieClient) { self.makeClient = makeClient }

        /// The number of lanes that no request uses.
        var idleCount: Int { state.withLock(\.idle.count) }

        /// Takes the lane that knows the transcript best, or a new one.
        func take(for entries: [String]) -> Lane {
            state.withLock { state in
                let known = state.idle.map { lane in zip(lane.entries, entries).prefix { $0 == $1 }.count }
                let best = known.indices.max { known[$0] < known[$1] }
                // A lane without entries was opened before its session's first request.
                let fitting = best.flatMap { known[$0] > 0 ? $0 : nil } ?? state.idle.firstIndex { $0.entries.isEmpty }
                if let fitting { return state.idle.remove(at: fitting) }
                return Lane(client: makeClient())
            }
        }

        /// Makes a lane free after a request that did not succeed.
        func release(_ lane: Lane) {
            // The client of a surplus lane closes its connection when it is released. There are nine lanes at most.
            _ = state.withLock { state in
                state.idle.append(lane)
                return state.idle.count > Self.idleLimit ? state.idle.removeFirst() : nil
            }
        }

        /// Makes a lane free after a request with these entries, and keeps the items of its answer.
        func release(_ lane: Lane, after entries: [String], _ round: SentRound? = nil) {
            var lane = lane
            lane.entries = entries + (round?.entries.map(\.id) ?? [])
            release(lane)
            if let round { keep(round) }
        }

        /// Keeps a round, and drops the oldest ones if all of them have too many bytes.
        func keep(_ round: SentRound) {
            guard let first = round.entries.first?.id else { return }
            state.withLock { state in
                state.rounds[first] = round
                state.order.append(first)
                state.size += round.byteCount
                var dropped = 0
                while state.size > Self.sizeLimit, let old = state.rounds.removeValue(forKey: state.order[dropped]) {
                    state.size -= old.byteCount
                    dropped += 1
                }
                state.order.removeFirst(dropped)
            }
        }

        /// Returns the round that began with this entry, if its items are still kept.
        func round(of entry: String) -> SentRound? { state.withLock { $0.rounds[entry] } }
    }

    /// The entries that an answer has become, and the items that the service sent.
    @available(macOS 27.0, iOS 27.0, visionOS 27.0, watchOS 27.0, *)
    @available(tvOS, unavailable)
    struct SentRound: Sendable {
        /// The visible content of an entry.
        enum Content: Sendable, Equatable {
            case text(String)
            case calls([ChappieToolCall])

            /// Adds a piece of the text.
            mutating func append(_ piece: String) {
                guard case .text(var text) = self else { return }
                // The only owner of a text can add to it without a copy.
                self = .text("")
                text += piece
                self = .text(text)
            }

            /// Adds a piece of the arguments of a call. Returns whether the call is new.
            mutating func append(_ piece: String, toCall id: String, _ name: String) -> Bool {
                guard case .calls(var calls) = self else { return false }
                self = .calls([])
                defer { self = .calls(calls) }
                guard let place = calls.firstIndex(where: { $0.callID == id }) else {
                    calls.append(ChappieToolCall(name: name, callID: id, arguments: piece))
                    return true
                }
                calls[place].arguments += piece
                return false
            }
        }

        struct Entry: Sendable {
            let id: String
            var content: Content
        }

        var entries: [Entry] = []
        var items: [ChappieJSON] = []
        var byteCount = 0

        /// Returns whether a transcript continues with the entries of the round, without changes.
        func begins(_ transcript: ArraySlice<Transcript.Entry>) -> Bool {
            transcript.count >= entries.count
                && zip(entries, transcript).allSatisfy { sent, entry in
                    sent.id == entry.id && Self.matches(sent.content, entry)
                }
        }

        private static func matches(_ content: Content, _ entry: Transcript.Entry) -> Bool {
            switch (content, entry) {
            case (.calls(let sent), .toolCalls(let calls)):
                return sent.count == calls.count
                    && zip(sent, calls).allSatisfy { sent, call in
                        sent.callID == call.id && sent.name == call.toolName
                            && sent.argumentsJSON == (try? ChappieJSON(parsing: call.arguments.jsonString))
                    }
            case (.text(let text), .reasoning(let reasoning)): return reasoning.segments.text == text
            case (.text(let text), .response(let response)):
                guard response.segments.contains(where: { if case .structure = $0 { true } else { false } }) else {
                    return response.segments.text == text
                }
                let shown = try? ChappieJSON(parsing: response.segments.text)
                return shown != nil && shown == (try? ChappieJSON(parsing: text))
            default: return false
            }
        }
    }
#endif

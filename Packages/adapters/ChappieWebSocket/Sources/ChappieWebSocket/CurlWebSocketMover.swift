#if canImport(ChappieCurl)
    @_spi(ChappieInternals) import ChappieCore
    @_spi(ChappieInternals) import ChappieCurl

    /// A mover for one WebSocket on the network loop. It moves bytes between the WebSocket's session and curl's socket.
    final class CurlWebSocketMover: NetworkMember, WebSocketMover {
        let isConnection = true
        private let route: CurlRoute
        private let network: CurlNetwork
        private let shared: SharedWebSocketSession

        init(_ shared: SharedWebSocketSession, on route: CurlRoute, network: CurlNetwork) {
            self.shared = shared
            self.route = route
            self.network = network
            shared.attach(self)
        }

        /// Starts the attempt. The loop retains its members.
        func start() throws { try network.loop.add(self) }

        func wake() { network.loop.wake(self) }

        func joined(_ handle: EasyHandle) -> Bool {
            // The caller may have dropped the connection before it reached the loop.
            guard !shared.isOver else { return false }
            handle.connect(route, deadline: network.policy.deadlines.connect)
            return true
        }

        func ended(_ handle: EasyHandle, with result: CurlResult) {
            let error = CurlFailure(result, of: handle, at: .connect, on: route).error
            shared.change { session, _ in session.failed(error) }
        }

        func loopStopped() {
            shared.change { session, _ in
                session.failed(.shutDown(host: route.origin.label))
            }
        }

        func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict {
            shared.visit(at: visit.now, deliver: visit.deliver) { session in
                if visit.isConnected { exchange(&session, with: handle, visit) }
                session.timeHasPassed(until: visit.now) { allowance in
                    CurlFailure(.timedOut, of: handle, at: .connect, on: route).timeOut(allowance: allowance)
                }
            }
        }

        /// The number of pieces that are read or written before it is the turn of other connections.
        private static let piecesPerVisit = 16

        /// Writes as much as the socket accepts, and reads as much as is available and needed.
        private func exchange(_ session: inout WebSocketSession, with handle: EasyHandle, _ visit: LoopVisit) {
            session.connected(at: visit.now)
            let reads = session.beginsReading(isReadable: visit.isReadable, at: visit.now)
            flush(&session, to: handle, at: visit.now)
            guard reads else { return }
            read(&session, from: handle, visit)
            // This sends pongs, and the answer to a close frame.
            flush(&session, to: handle, at: visit.now)
        }

        private func flush(_ session: inout WebSocketSession, to handle: EasyHandle, at now: Int) {
            for _ in 0..<Self.piecesPerVisit {
                guard let (bytes, range) = session.outbox.nextPiece else { return }
                switch bytes.withUnsafeBytes({ handle.send(UnsafeRawBufferPointer(rebasing: $0[range])) }) {
                case .bytes(let count): session.wrote(count, at: now)
                case .nothing: return session.outbox.blocked(at: now)
                case .failed: return session.writingBroke()
                }
            }
        }

        private func read(_ session: inout WebSocketSession, from handle: EasyHandle, _ visit: LoopVisit) {
            // Plain bytes are not buffered above the socket, so a short read has emptied it. TLS returns one record at
            // a time, and may hold others that the socket doesn't know of.
            let isPlain = route.origin.scheme == .http && route.isDirect
            var hasMore = true
            for _ in 0..<Self.piecesPerVisit where hasMore && session.wantsRead {
                switch handle.receive(into: visit.buffer) {
                case .bytes(let count):
                    session.received(UnsafeRawBufferPointer(rebasing: visit.buffer[..<count]), at: visit.now)
                    hasMore = !isPlain || count == visit.buffer.count
                case .nothing:
                    session.nothingToRead()
                    hasMore = false
                case .end, .failed:
                    session.connectionEnded()
                    hasMore = false
                }
            }
            session.endedReading(hasMore: hasMore, at: visit.now)
        }
    }
#endif

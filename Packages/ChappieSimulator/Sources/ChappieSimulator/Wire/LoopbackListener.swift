import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// The socket side of both servers: accepts on a loopback address, reads whole requests, plays the answers.
///
/// One event-loop thread for each listener: a server starts in well under a millisecond, and stopping it leaves nothing
/// behind.
final class LoopbackListener: Sendable {
    let port: Int
    let ledger: ConnectionLedger
    private let channel: any Channel
    private let group: MultiThreadedEventLoopGroup
    private let isStopped = Mutex(false)

    private init(port: Int, ledger: ConnectionLedger, channel: any Channel, group: MultiThreadedEventLoopGroup) {
        self.port = port
        self.ledger = ledger
        self.channel = channel
        self.group = group
    }

    /// - Parameters:
    ///   - host: a literal loopback address; the caller has checked it.
    ///   - port: 0 for any free port.
    ///   - recordLimit: how many requests the ledger keeps.
    ///   - recordByteLimit: how many bytes their bodies may have together.
    ///   - answer: called on the event loop for each whole request.
    static func start(
        host: String, port: Int, recordLimit: Int = .max, recordByteLimit: Int = .max,
        answer: @escaping @Sendable (ReceivedRequest) -> ServerReply
    ) async throws(SimulatorError) -> LoopbackListener {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let ledger = ConnectionLedger(recordLimit: recordLimit, byteLimit: recordByteLimit)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // Every step of a script is to leave as its own segment.
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)
                    try channel.pipeline.syncOperations.addHandlers([
                        ByteToMessageHandler(decoder),
                        ConnectionHandler(ledger: ledger, answer: answer),
                    ])
                }
            }
        do {
            let channel = try await bootstrap.bind(host: host, port: port).get()
            let bound = channel.localAddress?.port ?? port
            return LoopbackListener(port: bound, ledger: ledger, channel: channel, group: group)
        } catch {
            try? await group.shutdownGracefully()
            throw SimulatorError(listening: error, host: host, port: port)
        }
    }

    func stop() async {
        // An event loop that has shut down takes no more work: a second attempt would wait for ever.
        let isFirst = isStopped.withLock { isStopped in
            defer { isStopped = true }
            return !isStopped
        }
        guard isFirst else { return }
        // Closes the listening socket and every connection, and ends the thread.
        try? await group.shutdownGracefully()
    }
}

extension SimulatorError {
    fileprivate init(listening error: any Error, host: String, port: Int) {
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE: self.init(.portInUse, reason: "Port \(port) of \(host) is already in use")
        case EACCES, EPERM: self.init(.portDenied, reason: "Port \(port) of \(host) may not be opened by this user")
        default: self.init(.listenFailed, reason: "Could not listen on port \(port) of \(host): \(error)")
        }
    }
}

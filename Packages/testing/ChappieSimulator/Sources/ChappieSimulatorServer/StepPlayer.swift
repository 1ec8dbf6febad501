import ChappieSimulator
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A player for the steps of answers on one channel. It plays one answer after the other, and lets control frames in
/// between two of them.
///
/// It is next to the socket, so that only it decides which bytes are written and when. The handlers above it only make
/// the bytes. It is used only on its channel's event loop.
final class StepPlayer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The number of bytes that are passed to the socket at a time, so that the ledger follows the bytes that the
    /// kernel accepts.
    private static let writeSize = 64 * 1024
    /// The number of bytes of control frames that may wait for a message to end. A flood of pings need not be answered
    /// one by one (RFC 6455, 5.5.3).
    private static let gateSize = 16 * 1024

    private enum State {
        case playing
        /// The script is silent. Only control frames are still sent.
        case stalled
        /// Nothing more is sent. The peer or a timer closes the connection.
        case parted
    }

    private struct Batch {
        var steps: ArraySlice<ScriptedAnswer.Step>
        /// Whether some of its bytes have already been sent.
        var hasBegun = false
        let ended: () -> Void
    }

    private let channel: any Channel
    private let ledger: ConnectionLedger
    /// The number of this connection, counted from 0.
    private(set) var number = 0
    private var context: ChannelHandlerContext?
    private var state = State.playing
    private var batches = CircularBuffer<Batch>()
    private var timer: Scheduled<Void>?
    /// Whether a step is in progress, because the kernel takes bytes or a gate is closed.
    private var isBusy = false
    private var isAdvancing = false
    private var controlFrames: [UInt8] = []
    private var finishesAfterwards = false

    init(channel: any Channel, ledger: ConnectionLedger) {
        self.channel = channel
        self.ledger = ledger
    }

    /// Whether every answer has been played to its end.
    var isIdle: Bool { batches.isEmpty }
    /// Whether nothing is played any more.
    var isParted: Bool { state == .parted }

    // MARK: Inputs

    func channelActive(context: ChannelHandlerContext) {
        self.context = context
        number = ledger.connectionOpened()
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        part()
        self.context = nil
        ledger.connectionClosed(number)
        context.fireChannelInactive()
    }

    /// Plays these steps after all that wait.
    ///
    /// - Parameter ended: called when the last of these steps is done. It is not called if the connection ends earlier.
    func enqueue(_ answer: ScriptedAnswer, ended: @escaping () -> Void = {}) {
        guard !isParted else { return }
        batches.append(Batch(steps: answer.steps[...], ended: ended))
        advance()
    }

    /// Sends control frames as soon as no answer is partly sent.
    ///
    /// - Parameter thenFinishes: whether the connection ends after them, even if more steps wait.
    func letIn(_ frames: [UInt8], thenFinishes: Bool = false) {
        guard !isParted, !finishesAfterwards, thenFinishes || controlFrames.count < Self.gateSize else { return }
        controlFrames += frames
        finishesAfterwards = thenFinishes
        openGate()
    }

    /// Closes our half of the connection, and the rest after five seconds at the latest. Closing both halves while the
    /// peer still sends would turn the FIN into a reset.
    func finish() {
        guard !isParted else { return }
        part()
        // Unread bytes would also turn it into a reset.
        reads(true)
        channel.close(mode: .output, promise: nil)
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: .seconds(5)) { [channel] in
            channel.close(promise: nil)
        }
    }

    // MARK: Playing

    /// Continues to play. Steps that end at once call this function while it runs, which must not deepen the stack.
    private func advance() {
        guard !isAdvancing else { return }
        isAdvancing = true
        while state == .playing, timer == nil, !isBusy, !batches.isEmpty {
            if let step = batches[batches.startIndex].steps.popFirst() {
                play(step)
            } else {
                let done = batches.removeFirst()
                openGate()
                done.ended()
            }
        }
        isAdvancing = false
    }

    private func play(_ step: ScriptedAnswer.Step) {
        switch step {
        case .send(let bytes):
            guard !bytes.isEmpty else { return }
            isBusy = true
            batches[batches.startIndex].hasBegun = true
            write(bytes) { self.stepEnded() }
        case .drip(let bytes):
            let drops = bytes.flatMap { [ScriptedAnswer.Step.send([$0]), .wait(.microseconds(50))] }
            batches[batches.startIndex].steps = drops[...] + batches[batches.startIndex].steps
        case .wait(let duration):
            timer = channel.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(duration)) { [self] in
                timer = nil
                advance()
            }
        case .gate(let gate):
            isBusy = true
            let opened = channel.eventLoop.makeFutureWithTask { try await gate.pass() }
            opened.assumeIsolated().whenComplete { _ in self.stepEnded() }
        case .stopReading: reads(false)
        case .startReading: reads(true)
        case .finish: finish()
        case .reset: reset()
        case .stall:
            state = .stalled
            openGate()
        }
    }

    private func stepEnded() {
        isBusy = false
        advance()
    }

    private func openGate() {
        guard batches.first?.hasBegun != true, !isParted else { return }
        let frames = controlFrames
        controlFrames = []
        if !frames.isEmpty { write(frames) {} }
        if finishesAfterwards { finish() }
    }

    private func write(_ bytes: [UInt8], whenDone: @escaping () -> Void) {
        guard let context else { return }
        for start in stride(from: 0, to: bytes.count, by: Self.writeSize) {
            let piece = bytes[start..<min(start + Self.writeSize, bytes.count)]
            let promise = channel.eventLoop.makePromise(of: Void.self)
            promise.futureResult.assumeIsolated().whenSuccess { [ledger] in
                ledger.wrote(bytes: piece.count)
                if piece.endIndex == bytes.count { whenDone() }
            }
            context.write(wrapOutboundOut(channel.allocator.buffer(bytes: piece)), promise: promise)
        }
        context.flush()
    }

    private func reads(_ reads: Bool) { try? channel.syncOptions?.setOption(.autoRead, value: reads) }

    // MARK: Parting

    private func part() {
        timer?.cancel()
        timer = nil
        state = .parted
        batches = []
    }

    private func reset() {
        part()
        guard let options = channel as? any SocketOptionProvider else { return channel.close(promise: nil) }
        options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { [channel] _ in channel.close(promise: nil) }
    }
}

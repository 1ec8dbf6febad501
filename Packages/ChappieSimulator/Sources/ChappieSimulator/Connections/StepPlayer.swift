import Glibc
import NIOCore

/// Plays the steps of answers on one channel, one answer after the other, and lets control frames in between frames.
///
/// It stands next to the socket, so that it decides alone which bytes are written and when; the handlers above it only
/// make them. Only ever touched on its channel's event loop.
final class StepPlayer: ChannelInboundHandler, ChannelOutboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Bytes handed to the socket at a time, so that the ledger follows what the kernel takes.
    private static let writeSize = 64 * 1024
    /// Control frames that may wait for a frame to end; a flood of pings need not be answered one by one
    /// (RFC 6455, 5.5.3).
    private static let gateSize = 16 * 1024

    private enum State {
        case playing
        /// The script fell silent; only control frames are still sent.
        case stalled
        /// Nothing more is sent; the peer may close, or a timer does.
        case parted
    }

    private struct Batch {
        var steps: ArraySlice<ScriptedAnswer.Step>
        let ended: () -> Void
    }

    private let channel: any Channel
    private let ledger: ConnectionLedger
    /// Which connection this is, counted from 0.
    private(set) var number = 0
    private var context: ChannelHandlerContext?
    private var state = State.playing
    private var batches: [Batch] = []
    private var timer: Scheduled<Void>?
    private var isWriting = false
    private var isAdvancing = false
    private var mustAdvance = false
    /// The bytes that the handlers above write, while they are collected.
    private var collected: [UInt8]?
    /// Where one frame ends and the next begins; `nil` while the connection speaks HTTP.
    private var boundary: FrameBoundary?
    private var letIn: [UInt8] = []
    private var finishesAfterwards = false

    init(channel: any Channel, ledger: ConnectionLedger) {
        self.channel = channel
        self.ledger = ledger
    }

    /// Answers that have not been played to their end.
    var waitingCount: Int { batches.count }
    /// Whether nothing is being played and nothing more will be.
    var isParted: Bool { if case .parted = state { true } else { false } }

    // MARK: Inputs

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
        number = ledger.connectionOpened()
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        part()
        ledger.connectionClosed(number)
        context.fireChannelInactive()
    }

    /// Plays these steps after everything that waits.
    ///
    /// - Parameter ended: called when the last of them is done; not at all when the connection ends before.
    func enqueue(_ steps: [ScriptedAnswer.Step], ended: @escaping () -> Void = {}) {
        guard !isParted else { return }
        batches.append(Batch(steps: steps[...], ended: ended))
        advance()
    }

    /// From here on, frames are sent.
    func startsFrames() { boundary = FrameBoundary() }

    /// Sends frames as soon as no other frame is half sent.
    ///
    /// - Parameter thenFinishes: whether the connection ends after them, whatever else was still to come.
    func letIn(_ frames: [UInt8], thenFinishes: Bool = false) {
        guard !isParted, !finishesAfterwards, thenFinishes || letIn.count < Self.gateSize else { return }
        letIn.append(contentsOf: frames)
        finishesAfterwards = thenFinishes
        openGate()
    }

    /// Closes our half first: closing both while the peer still sends would turn the FIN into a reset.
    func finish() {
        guard !isParted else { return }
        part()
        channel.close(mode: .output, promise: nil)
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: .seconds(5)) { [channel] in
            channel.close(promise: nil)
        }
    }

    /// The bytes that the handlers above make of what they write in `body`.
    func collecting(_ body: () -> Void) -> [UInt8] {
        collected = []
        body()
        defer { collected = nil }
        return collected ?? []
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        collected?.append(contentsOf: unwrapOutboundIn(data).readableBytesView)
        promise?.succeed()
    }

    // MARK: Playing

    /// Plays on. Steps that end at once come back here while it runs: they must not deepen the stack.
    private func advance() {
        mustAdvance = true
        guard !isAdvancing else { return }
        isAdvancing = true
        while mustAdvance {
            mustAdvance = false
            playNextStep()
        }
        isAdvancing = false
    }

    private func playNextStep() {
        guard case .playing = state, timer == nil, !isWriting, !batches.isEmpty else { return }
        if let step = batches[0].steps.popFirst() {
            play(step)
        } else {
            let done = batches.removeFirst()
            mustAdvance = true
            done.ended()
        }
    }

    private func play(_ step: ScriptedAnswer.Step) {
        switch step {
        case .send([]): mustAdvance = true
        case .send(let bytes):
            isWriting = true
            write(bytes) { player in
                player.isWriting = false
                player.advance()
            }
            openGate()
        case .wait(let duration):
            timer = channel.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(duration)) { [self] in
                timer = nil
                advance()
            }
        case .finish: finish()
        case .reset: reset()
        case .stall: state = .stalled
        }
    }

    /// Lets the waiting control frames in when no frame is half sent.
    private func openGate() {
        guard !letIn.isEmpty || finishesAfterwards, boundary?.isReached == true, !isParted else { return }
        let frames = letIn
        letIn = []
        if !frames.isEmpty { write(frames) { _ in } }
        if finishesAfterwards { finish() }
    }

    private func write(_ bytes: [UInt8], whenDone: @escaping (StepPlayer) -> Void) {
        guard let context else { return }
        boundary?.sent(bytes)
        let webSocket = boundary == nil ? nil : number
        var buffer = channel.allocator.buffer(bytes: bytes)
        while let piece = buffer.readSlice(length: min(Self.writeSize, buffer.readableBytes)), piece.readableBytes > 0 {
            let isLast = buffer.readableBytes == 0
            let size = piece.readableBytes
            let promise = channel.eventLoop.makePromise(of: Void.self)
            promise.futureResult.assumeIsolated().whenSuccess { [self] in
                ledger.wrote(bytes: size, onWebSocket: webSocket)
                if isLast { whenDone(self) }
            }
            context.write(wrapOutboundOut(piece), promise: promise)
        }
        context.flush()
    }

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

/// Follows the frames in a stream of sent bytes, to know when none is half sent (RFC 6455, 5.2). The bytes may be those
/// of a fault, and a frame may come in many pieces.
struct FrameBoundary: Sendable {
    private var header: [UInt8] = []
    private var payloadLeft = 0

    /// Whether the next byte starts a frame.
    var isReached: Bool { header.isEmpty && payloadLeft == 0 }

    mutating func sent(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            if payloadLeft > 0 {
                let count = min(payloadLeft, rest.count)
                rest = rest.dropFirst(count)
                payloadLeft -= count
                continue
            }
            header.append(rest.removeFirst())
            guard header.count >= 2 else { continue }
            let short = header[1] & 0x7F
            let extended = short == 126 ? 2 : short == 127 ? 8 : 0
            guard header.count == 2 + extended + (header[1] & 0x80 == 0 ? 0 : 4) else { continue }
            let long = header[2..<(2 + extended)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            payloadLeft = Int(clamping: extended == 0 ? UInt64(short) : long)
            header = []
        }
    }
}

import Glibc
import NIOCore

/// Plays the steps of answers on one channel, one answer after the other, and lets control frames in between frames.
///
/// Only ever touched on its channel's event loop.
final class StepPlayer {
    /// Bytes handed to the socket at a time, so that the ledger follows what the kernel takes.
    private static let writeSize = 64 * 1024
    /// Control frames that may wait for a frame to end; a flood of pings need not be answered one by one
    /// (RFC 6455, 5.5.3).
    private static let gateSize = 16 * 1024

    private enum State {
        case playing
        /// The script fell silent; only what is let in between frames is still sent.
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
    private let connection: Int
    private var state = State.playing
    private var batches: [Batch] = []
    private var timer: Scheduled<Void>?
    private var isWriting = false
    private var isAdvancing = false
    private var mustAdvance = false
    /// Where one frame ends and the next begins; `nil` while the connection speaks HTTP.
    private var boundary: FrameBoundary?
    private var letIn: [UInt8] = []
    private var finishesAfterwards = false

    init(channel: any Channel, ledger: ConnectionLedger, connection: Int) {
        self.channel = channel
        self.ledger = ledger
        self.connection = connection
    }

    /// Answers that have not been played to their end.
    var waitingCount: Int { batches.count }
    /// Whether nothing is being played and nothing more will be.
    var isParted: Bool { if case .parted = state { true } else { false } }

    // MARK: Inputs

    /// Plays these steps after everything that waits.
    ///
    /// - Parameter ended: called when the last of them is done; not at all when the connection parts before.
    func enqueue(_ steps: [ScriptedAnswer.Step], ended: @escaping () -> Void = {}) {
        guard !isParted else { return }
        batches.append(Batch(steps: steps[...], ended: ended))
        advance()
    }

    /// What is sent from here on are frames.
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

    /// The connection is gone.
    func closed() {
        timer?.cancel()
        timer = nil
        state = .parted
        batches = []
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
        case .send(let bytes): send(bytes)
        case .wait(let duration): wait(for: duration)
        case .finish: finish()
        case .reset: reset()
        case .stall: state = .stalled
        }
    }

    private func send(_ bytes: [UInt8]) {
        isWriting = true
        write(bytes) { player in
            player.isWriting = false
            player.advance()
        }
        openGate()
    }

    private func wait(for duration: Duration) {
        timer = channel.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(duration)) { [self] in
            timer = nil
            advance()
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
        boundary?.sent(bytes)
        let isFrame = boundary != nil
        var buffer = channel.allocator.buffer(bytes: bytes)
        while let piece = buffer.readSlice(length: min(Self.writeSize, buffer.readableBytes)), piece.readableBytes > 0 {
            let isLast = buffer.readableBytes == 0
            let size = piece.readableBytes
            channel.write(piece).assumeIsolated().whenComplete { [self] result in
                guard case .success = result else { return }
                ledger.wrote(bytes: size, onWebSocket: isFrame ? connection : nil)
                if isLast { whenDone(self) }
            }
        }
        channel.flush()
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

import ChappieCore

@testable import ChappieWebSocket

/// Never traps; the chunking changes neither the messages, nor what is answered, nor the end. The second byte of the input
/// says what was negotiated.
func readWebSocketFrames(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(UnsafeBufferPointer(rebasing: input.dropFirst()))
    let settings = input.first ?? 0
    let whole = readFrames([chunks.whole], settings: settings)
    precondition(
        whole == readFrames(chunks.cut, settings: settings), "chunks of \(chunks.size) bytes change the outcome")
    return 0
}

/// Never traps; the chunking changes neither the choice, nor the body, nor the error.
func readWebSocketUpgrade(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(input)
    precondition(
        readAnswer([chunks.whole]) == readAnswer(chunks.cut), "chunks of \(chunks.size) bytes change the outcome")
    return 0
}

/// Whatever is compressed, in messages of any size and with any window, comes out the same.
func compressWebSocketMessages(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(UnsafeBufferPointer(rebasing: input.dropFirst()))
    let windowBits = 8 + Int((input.first ?? 0) >> 4 & 7)
    guard var deflater = Deflater(windowBits: windowBits), let inflater = try? Inflater(windowBits: windowBits) else {
        return 0
    }
    for message in chunks.cut + [chunks.whole] where !message.isEmpty {
        guard let compressed = message.withUnsafeBytes({ deflater.compress($0) }) else { return 0 }
        var output: [UInt8] = []
        compressed.withUnsafeBytes {
            try? inflater.decompress($0, endsMessage: true, into: &output, limit: message.count)
        }
        precondition(output == message, "messages of \(chunks.size) bytes change on the way")
    }
    return 0
}

/// Small enough for a fuzzer to reach, and large enough for more than one buffer of decompressed bytes.
private let limits = WebSocketLimits(frameBytes: 2048, messageBytes: 40_000)

private func readFrames(_ chunks: [[UInt8]], settings: UInt8) -> WebSocketCodec.Output {
    let windowBits = 8 + Int(settings >> 4 & 7)
    let compression = DeflateParameters(
        serverNoContextTakeover: settings & 2 != 0, clientNoContextTakeover: settings & 4 != 0,
        serverMaxWindowBits: windowBits, clientMaxWindowBits: windowBits)
    var codec = WebSocketCodec(
        limits: limits, compression: settings & 1 == 0 ? nil : compression, nextMaskingKey: { 0x0102_0304 })
    var whole = WebSocketCodec.Output()
    if settings & 0x80 != 0 { whole.bytes += codec.close(.normal) }
    for chunk in chunks {
        let output = chunk.withUnsafeBytes { codec.receivedBytes($0) }
        precondition(whole.end == nil || output == WebSocketCodec.Output(), "something happens after the end")
        precondition(output.messages.allSatisfy { $0.byteCount <= limits.messageBytes }, "beyond the limit")
        whole.messages += output.messages
        whole.bytes += output.bytes
        whole.end = whole.end ?? output.end
    }
    return whole
}

/// The server's answer to a handshake whose nonce is zero; a refusal with as much of its body as came, and the bytes behind
/// the answer.
private func readAnswer(_ chunks: [[UInt8]]) -> Result<[String], WebSocketError> {
    Result { () throws(WebSocketError) in
        var handshake = try WebSocketHandshake(
            target: "/", authority: "localhost", nonce: 0)
        var answer: WebSocketHandshake.Answer?
        var behind: [UInt8] = []
        for chunk in chunks {
            try chunk.withUnsafeBufferPointer { bytes throws(WebSocketError) in
                var rest = UnsafeRawBufferPointer(bytes)
                if answer == nil { answer = try handshake.receivedBytes(&rest) }
                behind += rest
            }
        }
        if case .refused? = answer { behind = [] }
        return ["\(answer ?? handshake.refusedSoFar, default: "nothing")", "\(behind)"]
    }
}

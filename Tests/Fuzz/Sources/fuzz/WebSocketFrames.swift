@_spi(Fuzzing) import ChappieWebSocket

/// Never traps; the chunking changes neither the messages, nor what is answered, nor the end.
func readWebSocketFrames(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    // The second byte says what was negotiated.
    let chunks = Chunks(UnsafeBufferPointer(rebasing: input.dropFirst()))
    let settings = input.first ?? 0
    let whole = WebSocketFuzzing.readFrames([chunks.whole], settings: settings)
    let cut = WebSocketFuzzing.readFrames(chunks.cut, settings: settings)
    precondition(whole == cut, "chunks of \(chunks.size) bytes change the outcome")
    return 0
}

@_spi(Fuzzing) import ChappieWebSocket

/// Never traps; the chunking changes neither the choice, nor the body, nor the error.
func readWebSocketUpgrade(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(input)
    let whole = WebSocketFuzzing.readAnswer([chunks.whole])
    let cut = WebSocketFuzzing.readAnswer(chunks.cut)
    precondition(whole == cut, "chunks of \(chunks.size) bytes change the outcome")
    return 0
}

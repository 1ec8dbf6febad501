@_spi(Fuzzing) import ChappieWebSocket

/// Whatever is compressed, in messages of any size and with any window, comes out the same.
func compressWebSocketMessages(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(UnsafeBufferPointer(rebasing: input.dropFirst()))
    precondition(
        WebSocketFuzzing.roundTrips(chunks.cut + [chunks.whole], settings: input.first ?? 0),
        "messages of \(chunks.size) bytes change on the way")
    return 0
}

@_spi(ChappieInternals) import ChappieCore

/// Never traps; the chunking changes neither the events nor whether the bound is passed.
func readServerSentEvents(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(input)
    let whole = decode([chunks.whole])
    let cut = decode(chunks.cut)
    precondition(whole == cut, "chunks of \(chunks.size) bytes change the events")
    return 0
}

/// The events and whether the bound was passed: a small one, so that a fuzzer reaches it.
private func decode(_ chunks: [[UInt8]]) -> [[UInt8]?] {
    var decoder = ServerSentEventDecoder(maximumEventBytes: 256)
    var events: [[UInt8]?] = []
    do {
        for chunk in chunks { try decoder.receivedBytes(chunk) { events.append(Array($0)) } }
        try decoder.connectionClosed { events.append(Array($0)) }
    } catch {
        events.append(nil)
    }
    return events
}

import ChappieCore

/// Never traps; the chunking changes neither the events nor whether the bound is passed.
func readServerSentEvents(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(input)
    let whole = decode([chunks.whole])
    let cut = decode(chunks.cut)
    precondition(whole == cut, "chunks of \(chunks.size) bytes change the events")
    return 0
}

/// The events, or `nil` past the bound: a small one, so that a fuzzer reaches it.
private func decode(_ chunks: [[UInt8]]) -> [ServerSentEvent]? {
    var decoder = ServerSentEventDecoder(maximumEventBytes: 256)
    var events: [ServerSentEvent] = []
    do {
        for chunk in chunks { events += try decoder.receivedBytes(chunk) }
        return events + (try decoder.connectionClosed())
    } catch {
        return nil
    }
}

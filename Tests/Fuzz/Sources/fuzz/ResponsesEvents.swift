import ChappieCore

/// Never traps; the chunking changes neither the events nor the outcome.
func readResponsesEvents(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let chunks = Chunks(input)
    let whole = decode([chunks.whole])
    let cut = decode(chunks.cut)
    precondition(whole.error == cut.error, "chunks of \(chunks.size) bytes change the outcome")
    precondition(whole.error != nil || whole.events == cut.events, "chunks of \(chunks.size) bytes change the events")
    return 0
}

private func decode(_ chunks: [[UInt8]]) -> (events: [ResponsesEvent], error: ResponsesStreamError?) {
    var decoder = ResponsesEventDecoder(maximumEventBytes: 1024)
    var events: [ResponsesEvent] = []
    do throws(ResponsesStreamError) {
        for chunk in chunks { events += try decoder.receivedBytes(chunk) }
        events += try decoder.connectionClosed()
        return (events, nil)
    } catch {
        return (events, error)
    }
}

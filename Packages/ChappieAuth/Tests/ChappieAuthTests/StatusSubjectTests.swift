import Testing

@testable import ChappieAuth

@Suite struct StatusSubjectTests {
    @Test func aSubjectMissesNothingAndRepeatsNothing() async {
        let subject = StatusSubject(0)
        let streams = (0..<4).map { _ in subject.updates() }
        let writer = Task.detached {
            for value in 1...1000 {
                subject.set(value)
                subject.set(value)
            }
        }
        for stream in streams {
            var seen: [Int] = []
            for await value in stream {
                seen.append(value)
                if value == 1000 { break }
            }
            #expect(seen == Array(0...1000))
        }
        await writer.value
    }

    @Test func aSubjectThatGoesEndsItsStreams() async {
        var subject: StatusSubject<Int>? = StatusSubject(1)
        let stream = subject?.updates()
        subject = nil
        var seen: [Int] = []
        for await value in stream ?? AsyncStream(unfolding: { nil }) { seen.append(value) }
        #expect(seen == [1])
    }
}

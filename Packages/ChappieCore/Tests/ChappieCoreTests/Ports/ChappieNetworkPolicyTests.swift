@_spi(ChappieInternals) import ChappieCore
import Testing

@Suite struct ChappieNetworkPolicyTests {
    @Test func theDefaultsAreAsDocumented() {
        let policy = ChappieNetworkPolicy.default
        #expect(policy.proxy == .environment && policy.extraCAFile == nil && policy.deadlines == .default)
        let deadlines = ChappieDeadlines()
        #expect(deadlines.connect == .seconds(15) && deadlines.responseHead == .seconds(60))
        #expect(deadlines.firstByte == .seconds(120) && deadlines.idle == .seconds(300))
    }

    @Test func deadlinesAreAtLeastAMillisecond() {
        let deadlines = ChappieDeadlines(
            connect: .zero, responseHead: .seconds(-5), firstByte: .microseconds(1), idle: .milliseconds(2))
        #expect(deadlines.connect == .milliseconds(1) && deadlines.responseHead == .milliseconds(1))
        #expect(deadlines.firstByte == .milliseconds(1) && deadlines.idle == .milliseconds(2))
    }
}

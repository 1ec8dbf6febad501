import ChappieCore
import ChappieHTTP
import Foundation
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.counterparts) struct TLSTests {
        @Test func speaksHTTP2WhereTheServerDoes() async throws {
            let server = try Counterparts.current
            let transport = makeTransport(extraCAFile: server.authority)
            for host in ["127.0.0.1", "localhost"] {
                let answer = try await transport.fetch(makeURL("https://\(host):\(server.good)/"))
                #expect(answer.status == 200)
                #expect(answer.body == Array("hello over HTTP/2.0\n".utf8))
            }
        }

        @Test func speaksHTTP11WhereTheServerHasNothingElse() async throws {
            let server = try Counterparts.current
            let transport = makeTransport(extraCAFile: server.authority)
            let answer = try await transport.fetch(makeURL("https://127.0.0.1:\(server.goodWithoutHTTP2)/"))
            #expect(answer.body == Array("hello over HTTP/1.1\n".utf8))
        }

        @Test func refusesAPrivateAuthorityThatNobodyNamed() async throws {
            let error = try await refusal(by: makeTransport(), port: Counterparts.current.good)
            #expect(error.code == .certificateRejected)
            #expect(error.reason.contains("unable to get local issuer certificate"))
        }

        @Test func refusesACertificateThatSignedItself() async throws {
            let server = try Counterparts.current
            let error = try await refusal(by: makeTransport(extraCAFile: server.authority), port: server.selfSigned)
            #expect(error.code == .certificateRejected)
            #expect(error.reason.contains("self-signed"))
        }

        @Test func refusesAnExpiredCertificate() async throws {
            let server = try Counterparts.current
            let error = try await refusal(by: makeTransport(extraCAFile: server.authority), port: server.expired)
            #expect(error.code == .certificateRejected)
            #expect(error.reason.contains("expired"))
        }

        @Test func refusesACertificateForAnotherHost() async throws {
            let server = try Counterparts.current
            let error = try await refusal(by: makeTransport(extraCAFile: server.authority), port: server.otherHost)
            #expect(error.code == .certificateRejected)
            #expect(error.reason.contains("127.0.0.1"))
        }

        @Test func refusesTLSBefore12() async throws {
            let server = try Counterparts.current
            let error = try await refusal(by: makeTransport(extraCAFile: server.authority), port: server.oldTLS)
            #expect(error.code == .tlsFailed)
            #expect(error.reason.contains("protocol version"))
        }

        @Test func refusesAServerWithoutTLS() async throws {
            let server = try Counterparts.current
            let error = try await refusal(by: makeTransport(extraCAFile: server.authority), port: server.plain)
            #expect(error.code == .tlsFailed)
        }

        /// The bundle of the system stays in force beside the extra file: here it is the one that is needed.
        @Test func anExtraAuthorityVouchesForItsOwnCertificatesOnly() async throws {
            let server = try Counterparts.current
            let transport = makeTransport(extraCAFile: server.selfSignedCertificate)
            #expect(try await transport.fetch(makeURL("https://127.0.0.1:\(server.selfSigned)/")).status == 200)
            let error = try await refusal(by: transport, port: server.good)
            #expect(error.code == .certificateRejected)
        }

        @Test func followsARedirectWithinTheOriginOnly() async throws {
            let server = try Counterparts.current
            let transport = makeTransport(extraCAFile: server.authority)
            let moved = try await transport.fetch(makeURL("https://127.0.0.1:\(server.good)/moved"))
            #expect(moved.body == Array("hello over HTTP/2.0\n".utf8))
            let error = try await transportError {
                _ = try await transport.fetch(makeURL("https://127.0.0.1:\(server.good)/away"))
            }
            #expect(error.code == .redirectRefused)
            #expect(error.reason.contains("https://127.0.0.1:\(server.selfSigned)"))
        }

        /// Over HTTP/2 a stream that waits must not hold up the others on its connection for good.
        @Test func aStreamThatWaitsLeavesTheOthersAlone() async throws {
            let server = try Counterparts.current
            let size = 8 << 20
            try Data(repeating: 7, count: size).write(to: URL(filePath: server.directory.path("large")))
            let transport = makeTransport(extraCAFile: server.authority)
            let large = HTTPExchangeRequest(url: try makeURL("https://127.0.0.1:\(server.good)/files/large"))
            let waiting = try await transport.send(large).body
            for _ in 0..<20 {
                let answer = try await transport.fetch(makeURL("https://127.0.0.1:\(server.good)/"))
                #expect(answer.status == 200)
            }
            #expect(try await transport.fetch(large).body.count == size)
            #expect(try await waiting.collect(upTo: size).count == size)
        }

        private func refusal(by transport: CurlHTTPTransport, port: Int) async throws -> ChappieTransportError {
            let error = try await transportError {
                _ = try await transport.fetch(makeURL("https://127.0.0.1:\(port)/a/path?secret=1"))
            }
            #expect(error.stage == .tls)
            #expect(error.host == "127.0.0.1:\(port)")
            #expect(!error.localizedDescription.contains("secret"))
            return error
        }
    }
}

public import ChappieCore
public import FoundationEssentials

/// What every ``HTTPTransport`` does, as a list of cases that any testing framework can run.
///
/// Each case sends requests to a server that answers by ``answer(to:)``: for an adapter a real one
/// (``startServer()``), for the fake the same script in memory (``makeFake()``).
///
/// ```swift
/// @Test(arguments: HTTPTransportContract.cases)
/// func keepsTheContract(_ contractCase: HTTPTransportContract.Case) async throws {
///     let server = try await HTTPTransportContract.startServer()
///     try await contractCase.run(MyTransport(), at: HTTPTransportContract.baseURL(of: server))
/// }
/// ```
///
/// What goes over the wire (content coding, added fields, TLS, proxies) has no counterpart in a fake and is for the tests
/// of the adapter.
public enum HTTPTransportContract {
    /// One demand on a transport.
    public struct Case: Sendable, CustomStringConvertible {
        /// The demand as a fact: `a status of 500 is a response`.
        public let name: String
        let check: @Sendable (_ transport: any HTTPTransport, _ baseURL: URL) async throws -> Void

        /// - Parameter baseURL: where the contract's server listens; the cases add their paths.
        /// - Throws: ``ContractViolation`` when the demand is not met, and whatever the transport should not have thrown.
        public func run(_ transport: any HTTPTransport, at baseURL: URL) async throws {
            try await check(transport, baseURL)
        }

        public var description: String { name }
    }

    /// The cases, in the order in which they run.
    public static let cases: [Case] = exchangeCases + endingCases + policyCases

    /// A transport that keeps the script in memory; any base URL on loopback will do.
    public static func makeFake() -> ScriptedHTTPTransport { ScriptedHTTPTransport { answer(to: $0) } }
}

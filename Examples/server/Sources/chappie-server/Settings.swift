import ChappieSDK
import Foundation

/// The settings of the program, from its environment.
struct Settings {
    let host: String
    let port: Int
    let database: String
    let sealingKeys: String
    let cookieKey: String
    let machine: String
    let migrates: Bool
    /// The time after which a client that nobody uses is released.
    let idle: Duration
    /// The service, or a simulator.
    let endpoints: ChappieEndpoints

    private static let environment = ProcessInfo.processInfo.environment

    /// Returns a setting that has no default.
    static func required(_ name: String) throws -> String {
        guard let value = environment[name], !value.isEmpty else { throw SettingsError("\(name) is not set") }
        return value
    }

    init() throws {
        let environment = Self.environment
        let address = environment["CHAPPIE_SERVER_LISTEN"] ?? "127.0.0.1:8080"
        guard let colon = address.lastIndex(of: ":"), let port = Int(address[address.index(after: colon)...]) else {
            throw SettingsError("CHAPPIE_SERVER_LISTEN must be HOST:PORT")
        }
        host = String(address[..<colon])
        self.port = port
        database = try Self.required("CHAPPIE_SERVER_DATABASE")
        sealingKeys = try Self.required("CHAPPIE_SERVER_KEYS")
        cookieKey = try Self.required("CHAPPIE_SERVER_COOKIE_KEY")
        let process = ProcessInfo.processInfo
        machine = environment["CHAPPIE_SERVER_NAME"] ?? "\(process.hostName)/\(process.processIdentifier)"
        migrates = environment["CHAPPIE_SERVER_MIGRATES"] == "1"
        idle = .seconds(environment["CHAPPIE_SERVER_IDLE"].flatMap(Int.init) ?? 300)
        switch (environment["CHAPPIE_ISSUER"], environment["CHAPPIE_BACKEND"]) {
        case (nil, nil): endpoints = .chatGPT
        case (let issuer, let backend):
            guard let issuer = URL(string: issuer ?? ""), let backend = URL(string: backend ?? "") else {
                throw SettingsError("CHAPPIE_ISSUER and CHAPPIE_BACKEND must both be addresses")
            }
            endpoints = ChappieEndpoints(issuer: issuer, backend: backend)
        }
    }
}

/// A setting that can't be used.
struct SettingsError: Error, LocalizedError {
    let errorDescription: String?

    init(_ words: String) { errorDescription = words }
}

/// Writes a line to standard error, for the journal.
func report(_ words: String) {
    try? FileHandle.standardError.write(contentsOf: Data("\(words)\n".utf8))
}

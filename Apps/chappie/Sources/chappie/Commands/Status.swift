import ArgumentParser
import ChappieSDK
import FoundationEssentials

/// `chappie status`: who is signed in, and where the credential lies. Asks nobody but the store.
struct Status: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show who is signed in and where the credential lies.",
        discussion: """
            Exits with 77 when nobody is signed in.

            With --verbose: also how the last answer travelled.

            With --json: {"signed_in":true,"account":{…},"expires_at":…,"store":…,"slot":…,"issuer":…,"backend":…, \
            "last_answer":{"transport":{"kind":"websocket","reconnects":0,"fell_back":false},"at":…,"backend":…}}.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let info: ChappieAccountInfo
        do { info = try await program.client().accountInfo() } catch ChappieClientError.missingCredential {
            if options.json { Output.json(json(program, nil, nil)) } else { Output.line("Nobody is signed in.") }
            throw SilentExit(.signInNeeded)
        }
        let session = try await program.session()
        let expiresAt: Date? = if case .signedIn(let date) = await session.state { date } else { nil }
        guard !options.json else { return Output.json(json(program, info, expiresAt)) }
        let plan = info.plan.map { " (\($0.displayName))" } ?? ""
        Output.line("Signed in as \(info.email ?? "an account without an address")\(plan)")
        Output.line("Account   \(info.accountID ?? "unknown")")
        if let expiresAt { Output.line("Token     good until \(expiresAt.localMinute), renewed by itself") }
        Output.line("Stored    \(program.place)")
        if options.verbose { Output.line("Transport \(lastAnswer(program))") }
        Output.line("Service   \(program.settings.configuration.endpoints.profile.backend.absoluteString)")
    }

    private func lastAnswer(_ program: Program) -> String {
        guard let record = program.lastAnswer?.read(), let transport = record["transport"] else {
            return "nothing asked yet"
        }
        let reconnects = transport["reconnects"]?.int ?? 0
        let fellBack = transport["fell_back"]?.bool == true ? ", after falling back" : ""
        let moment = record["at"]?.string.flatMap { try? Date($0, strategy: .iso8601) }
        return "\(transport["kind"]?.string ?? "none"), \(reconnects) reconnect\(reconnects == 1 ? "" : "s")\(fellBack)"
            + (moment.map { ", at \($0.localMinute)" } ?? "")
    }

    private func json(_ program: Program, _ info: ChappieAccountInfo?, _ expiresAt: Date?) -> ChappieJSON {
        let configuration = program.settings.configuration
        return [
            "signed_in": .bool(info != nil), "account": info?.json ?? .null,
            "expires_at": .optional(expiresAt?.formatted(.iso8601)),
            "store": .string(program.settings.store.rawValue),
            "slot": [
                "service": .string(configuration.keychainService), "account": .string(configuration.keychainAccount),
            ],
            "issuer": .string(configuration.endpoints.profile.issuer.absoluteString),
            "backend": .string(configuration.endpoints.profile.backend.absoluteString),
            "last_answer": program.lastAnswer?.read() ?? .null,
        ]
    }
}

import ArgumentParser
@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

/// The command `chappie status`. It shows who is signed in and the place of the credential. It reads only the store.
struct Status: ProgramCommand {
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show who is signed in and where the credential is stored.",
        discussion: """
            Exits with 77 if you are not signed in.

            --verbose also shows the transport of the last answer.

            With --json: {"signed_in":true, "account":{…}, "grant":…, "expires_at":…, "renewal_refused":…, "store":…, "slot":…, "route":…, \
            "issuer":…, "backend":…, "last_answer":{"transport":{"kind":"websocket", "reconnects":0, "fell_back":false}, "at":…, \
            "backend":…}}.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let (console, configuration) = (program.console, program.settings.configuration)
        let endpoints = configuration.endpoints
        var info: ChappieAccountInfo?
        var expiresAt: Date?
        var grant: ChappieGrant?
        var isRenewable = false
        var refusal: String?
        var ending: String?
        do {
            info = try await program.client().accountInfo()
            let session = try await program.session()
            grant = await session.grant
            isRenewable = await session.isRenewable
            refusal = await session.renewalRefusal
            switch await session.state {
            case .signedIn(let date): expiresAt = date
            // The stored credential can no longer be used for a request.
            case .reauthenticationRequired:
                info = nil
                ending = await session.lastError?.errorDescription
            default: break
            }
        } catch ChappieClientError.missingCredential {}
        if options.json {
            console.json([
                "signed_in": .bool(info != nil), "account": info?.json ?? .null,
                "grant": .optional(grant?.rawValue),
                "expires_at": .optional(expiresAt?.formatted(.iso8601)),
                "renewal_refused": .optional(refusal),
                "store": .string(program.settings.store.rawValue),
                "slot": [
                    "service": .string(configuration.keychainService),
                    "account": .string(configuration.keychainAccount),
                ],
                "route": .string(program.settings.route.rawValue),
                "issuer": .string(endpoints.issuer.absoluteString),
                "backend": .string(endpoints.backend.absoluteString),
                "last_answer": program.lastAnswer?.read() ?? .null,
            ])
        } else if let info {
            console.line("Signed in as \(info.email ?? "an account without an address")\(info.planInParentheses)")
            if let accountID = info.accountID {
                console.line("Account   \(accountID)")
            } else if let userID = info.userID {
                console.line("User      \(userID)")
            }
            if let planUse = info.planUse {
                let finding = Finding.planUse(planUse, endpoints)
                console.line(
                    "Plan      " + [finding.detail, finding.remedy].compactMap(\.self).joined(separator: ". "))
            }
            let renewal =
                refusal != nil
                ? "can't be renewed"
                : grant == .accessToken || !isRenewable
                    ? "not renewed" : info.planUse == nil ? "renewed automatically" : "renewed if the service allows it"
            if let expiresAt {
                console.line("Token     good until \(expiresAt.localMinute), \(renewal)")
            } else if grant == .accessToken {
                console.line("Token     an access token, \(renewal)")
            }
            if let refusal { console.line("          \(refusal)") }
            console.line("Stored    \(program.place)")
            if options.verbose { console.line("Transport \(Self.words(program.lastAnswer?.read()))") }
            let route = program.settings.route
            console.line("Service   \(endpoints.backend.absoluteString)\(route == .device ? "" : " (\(route.words))")")
        } else {
            console.line(ending ?? "You are not signed in\(program.settings.issuerWords.map { " at \($0)" } ?? "").")
        }
        if !options.json { Self.showOthers(program) }
        if info == nil { throw ExitCode(ExitStatus.signInNeeded.rawValue) }
    }

    /// Names the accounts of the other route, which have other credentials.
    private static func showOthers(_ program: Program) {
        guard !program.options.simulate else { return }
        let kept = ProgramNotes.read(program.environment).notes
        for route in Route.allCases where route != program.settings.route {
            let names = kept.accounts(of: program.settings.issuers[route]).names
            guard !names.isEmpty else { continue }
            program.console.line("Also      --route \(route.rawValue): \(names.joined(separator: ", "))")
        }
    }

    private static func words(_ lastAnswer: ChappieJSON?) -> String {
        guard let lastAnswer, let transport = lastAnswer["transport"] else { return "nothing asked yet" }
        let moment = lastAnswer["at"]?.string.flatMap { try? Date($0, strategy: .iso8601) }
        return TransportSummary.words(transport) + (moment.map { ", at \($0.localMinute)" } ?? "")
    }
}

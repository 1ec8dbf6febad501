@_spi(ChappieInternals) import ChappieCore
import ChappieSDK
import FoundationEssentials

/// The credits that reset the plan's limits, and the notes of this program about them.
struct ResetCredits {
    private let program: Program

    init(_ program: Program) { self.program = program }

    private var account: String { program.settings.configuration.keychainAccount }
    private var issuer: String? { program.settings.issuer }

    // MARK: List

    /// Returns the credits, or `nil` if the service does not list them now.
    ///
    /// - Parameter usage: the usage, which may report that there are none.
    /// - Throws: `CancellationError`.
    func listed(for usage: ChappieUsageLimitSnapshot) async throws -> [ChappieResetCredit]? {
        do {
            let credits = usage.availableResets == 0 ? [] : try await program.client().resetCredits()
            await remember(credits)
            return credits
        } catch {
            try Task.checkCancellation()
            if usage.availableResets != nil {
                program.console.note("chappie: couldn't load your reset credits: \(CommandLineError(error).message)")
            }
            return nil
        }
    }

    /// Returns a line for each credit that can be redeemed.
    static func lines(_ credits: [ChappieResetCredit], now: Date = Date()) -> [String] {
        credits.filter { $0.isAvailable(at: now) }.map { "Reset credit \(line($0, now: now))" }
    }

    private static func line(_ credit: ChappieResetCredit, now: Date = Date()) -> String {
        let title = credit.title.flatMap { UntrustedText.message($0, limit: 100) }.map { " (\($0))" } ?? ""
        let expiry = credit.expiresAt.map { "expires \($0.inWords(from: now))" } ?? "does not expire"
        return "\(UntrustedText.forTerminal(credit.id))\(title) \(expiry)"
    }

    // MARK: Redemption

    /// Redeems a credit.
    ///
    /// The request is stored until its outcome is known. A later call sends the same request again, so that an attempt
    /// that was cut redeems at most one credit.
    ///
    /// - Parameters:
    ///   - wanted: the credit's id. `nil` means the credit with the earliest expiry.
    ///   - force: whether the user is not asked.
    func redeem(_ wanted: String?, force: Bool) async throws {
        let client = try program.client()
        let info = try await client.accountInfo()
        let owner = info.accountID ?? info.userID ?? ""
        let notes = ProgramNotes.read(program.environment).notes.resets(of: account, issuer)
        var rest: [ChappieResetCredit] = []
        var request: ChappieRedemptionRequest
        if let unfinished = notes.request(of: owner) {
            request = unfinished
            program.console.note("chappie: the outcome of an earlier attempt is not known, so it is repeated first")
            if !force, try await !confirms(unfinished.creditID ?? "") { return }
        } else {
            let credits = try await client.resetCredits()
            let credit = try choose(wanted, from: credits)
            rest = credits.filter { $0.id != credit.id }
            if !force, try await !confirms(Self.line(credit)) { return }
            request = ChappieRedemptionRequest(creditID: credit.id)
        }
        try await change { notes in
            // Another process may have stored its request in the meantime.
            request = notes.request(of: owner) ?? request
            notes.request = request
            notes.owner = owner
        }
        let redemption: ChappieRedemption
        do {
            redemption = try await client.redeem(request)
        } catch ChappieClientError.resetRefused(let refusal) {
            await finish()
            throw ChappieClientError.resetRefused(refusal)
        } catch {
            throw Self.unknownOutcome(error, program.console)
        }
        await finish()
        await remember(rest)
        report(redemption, of: request)
    }

    private func choose(
        _ wanted: String?, from credits: [ChappieResetCredit]
    ) throws -> ChappieResetCredit {
        let available = credits.filter { $0.isAvailable(at: Date()) }
        if let credit = wanted.map({ id in available.first { $0.id == id } }) ?? available.first { return credit }
        guard let wanted else {
            throw CommandLineError(
                .unavailable, code: "no_credit", "You have no reset credit.", suggestion: "Wait until the limits reset."
            )
        }
        throw CommandLineError(
            .unavailable, code: "no_credit",
            "You have no reset credit \"\(UntrustedText.forTerminal(wanted))\" that can be redeemed.",
            suggestion: "See `chappie usage`.")
    }

    private func confirms(_ credit: String) async throws -> Bool {
        let console = program.console
        guard console.terminals.input, console.terminals.error, !program.options.json else {
            throw CommandLineError.usage("Without a terminal nothing is redeemed.", suggestion: "Add --force.")
        }
        console.note("Reset credit \(UntrustedText.forTerminal(credit))")
        if try await TerminalLineReader(console: console).confirms("Reset your limits with it?") == true { return true }
        console.note("Nothing was redeemed.")
        return false
    }

    private func report(_ redemption: ChappieRedemption, of request: ChappieRedemptionRequest) {
        let credit = request.creditID.map(UntrustedText.forTerminal) ?? "a credit"
        let windows = redemption.windowsReset.map { " (\($0) \($0 == 1 ? "window" : "windows"))" } ?? ""
        program.say(
            [
                "redeemed": .optional(request.creditID), "windows_reset": .optional(redemption.windowsReset),
                "already_redeemed": .bool(redemption.wasRedeemedBefore),
            ],
            redemption.wasRedeemedBefore
                ? "The earlier attempt had redeemed \(credit). Your limits were reset then."
                : "Redeemed \(credit). Your limits are reset\(windows).")
    }

    /// Returns an error that leaves the outcome open, with advice.
    private static func unknownOutcome(_ error: any Error, _ console: Console) -> any Error {
        let advice =
            "Whether the credit was redeemed is not known. Run `chappie usage --reset` again: it redeems one at most."
        if error is CancellationError {
            console.note("chappie: \(advice)")
            return error
        }
        var error = CommandLineError(error)
        if error.status != .signInNeeded { error.suggestion = advice }
        return error
    }

    // MARK: Notes

    /// Returns the error with a mention of `--reset` if it is a limit of the plan and a credit is known. Nothing is
    /// sent.
    func explained(_ error: any Error) -> any Error {
        guard case ChappieClientError.usageLimitReached(let limit) = error, limit.planOfService == nil,
            limit.type != "rate_limit_exceeded", limit.usagePage == nil,
            let end = ProgramNotes.read(program.environment).notes.resets(of: account, issuer).until, end > Date()
        else { return error }
        var error = CommandLineError(error)
        error.suggestion =
            "To reset it now with a reset credit, run `chappie usage --reset`. " + (error.suggestion ?? "")
        return error
    }

    /// Stores how long a credit can be redeemed. A list that can't be stored is not an error.
    private func remember(_ credits: [ChappieResetCredit]) async {
        let end = credits.filter { $0.isAvailable(at: Date()) }.compactMap(\.expiresAt).max()
        guard ProgramNotes.read(program.environment).notes.resets(of: account, issuer).until != end else { return }
        try? await change { $0.until = end }
    }

    /// Forgets the request, whose outcome is known now. If that fails, the next call repeats it, which redeems nothing.
    private func finish() async {
        await uncancelled { try? await change { $0.request = nil } }
    }

    private func change(_ change: (inout ProgramNotes.Resets) throws -> Void) async throws {
        guard !program.options.simulate else { return }
        try await ProgramNotes.change(program.environment) { notes in
            var resets = notes.resets(of: account, issuer)
            try change(&resets)
            notes.set(resets, of: account, issuer)
        }
    }
}

extension ChappieResetCredit {
    var json: ChappieJSON {
        [
            "id": .string(id), "status": .string(status.rawValue), "reset_type": .optional(resetType),
            "granted_at": .optional(grantedAt?.formatted(.iso8601)),
            "expires_at": .optional(expiresAt?.formatted(.iso8601)), "title": .optional(title),
            "description": .optional(details),
        ]
    }
}

import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieJSONSchema
import ChappieMCP
import ChappieRuntime
import ChappieSDK
import ChappieThreadForms
import FoundationEssentials
import Testing

@testable import chappie

@Suite struct CommandLineErrorTests {
    private static let lost = ChappieTransportError(
        .connectionLost, stage: .responseBody, host: "host", reason: "it broke")
    private static let badCA = ChappieTransportError(
        .invalidCAFile, stage: .configuration, host: "", reason: "the extra CA file x")
    private static let strange = ChappieTransportError(
        .protocolViolation, stage: .responseHead, host: "host", reason: "nonsense")

    @Test(
        arguments: [
            (CancellationError() as any Error, 130, "interrupted", nil),
            (ChappieAuthError.cancelledSignIn, 130, "interrupted", nil),
            (ChappieClientError.missingCredential, 77, "sign_in_needed", "chappie login"),
            (ChappieClientError.reauthenticationRequired("Enough."), 77, "sign_in_needed", "chappie login"),
            (ChappieAuthError.missingRefreshToken, 77, "sign_in_needed", "chappie login"),
            (ChappieAuthError.renewableLater(Date()), 77, "renewable_later", "to continue now"),
            (ChappieClientError.renewalFailed(.renewableLater(Date())), 77, "renewable_later", "to continue now"),
            (CredentialStoreError.overtaken, 69, "credential_busy", nil),
            (ChappieAuthError.missingCredential, 77, "sign_in_needed", "chappie login"),
            (ChappieAuthError.missingAccountID, 77, "sign_in_needed", "chappie login"),
            (ChappieAuthError.reauthenticationRequired("Enough."), 77, "sign_in_needed", "chappie login"),
            (ChappieAuthError.networkFailure("Down."), 69, "sign_in_unavailable", nil),
            (ChappieAuthError.credentialStoreUnavailable(.locked("it is late")), 69, "keyring_locked", "Unlock"),
            (
                ChappieTransportError(.invalidURL, stage: .configuration, host: "host", reason: "foreign"), 64,
                "configuration", "address"
            ),
            (ChappieAuthError.expiredDeviceCode, 77, "sign_in_timed_out", nil),
            (ChappieAuthError.authorizationDenied("No."), 77, "authorization_denied", nil),
            (ChappieAuthError.tokenExchangeFailed(statusCode: 500, body: ""), 69, "sign_in_unavailable", nil),
            (
                ChappieAuthError.tokenExchangeFailed(
                    statusCode: 403, body: #"{"error":{"code":"unsupported_country_region_territory"}}"#), 77,
                "sign_in_refused", "connection comes from"
            ),
            (
                ChappieAuthError.tokenExchangeFailed(
                    statusCode: 401, body: #"{"error":{"code":"missing_codex_entitlement"}}"#), 77, "sign_in_refused",
                "administrator"
            ),
            (
                ChappieClientError.renewalFailed(
                    .tokenExchangeFailed(
                        statusCode: 403, body: #"{"error":{"code":"unsupported_country_region_territory"}}"#)), 77,
                "sign_in_refused", "connection comes from"
            ),
            (ChappieAuthError.tooManyRequests(retryAfter: .seconds(90)), 69, "sign_in_unavailable", "90 s"),
            (ChappieAuthError.secureRandomFailed(statusCode: 1), 70, "sign_in_failed", nil),
            (ChappieClientError.renewalFailed(.networkFailure("Down.")), 69, "sign_in_unavailable", nil),
            (ChappieClientError.usageLimitReached(ChappieUsageLimit()), 75, "usage_limit_reached", nil),
            (ChappieClientError.toolLoopLimitExceeded(16), 69, "tool_loop_limit", "more rounds with --rounds"),
            (ChappieClientError.httpError(429, ""), 69, "http_error", nil),
            (
                ChappieClientError.modelUnavailable(
                    ChappieModelRefusal(slug: "gpt-6.1-sol", reason: .atCapacity, suggestion: "gpt-6-sol")), 69,
                "model_at_capacity", "another model with -m, such as `-m gpt-6-sol`"
            ),
            (ChappieClientError.invalidResponse, 65, "invalid_response", nil),
            (
                ChappieClientError.invalidStructuredOutput(ChappieSchemaViolation(path: "/a", message: "must be"), ""),
                65, "invalid_structured_output", "schema"
            ),
            (ChappieAttachmentError.unsupportedImage("a"), 64, "attachment", "PNG"),
            (ChappieMCPError(.signInNeeded, server: "s", reason: "x"), 77, "tool_sign_in_needed", "Sign in"),
            (ChappieMCPError(.permissionNeeded, server: "s", reason: "x"), 77, "tool_sign_in_needed", "Sign in"),
            (ChappieMCPError(.signInFailed, server: "s", reason: "x"), 69, "tool_sign_in_failed", nil),
            (ChappieMCPError(.ended, server: "s", reason: "x"), 69, "tool_server", nil),
            (ChappieClientError.contextWindowExceeded, 69, "context_window_exceeded", "/compact"),
            (
                ChappieClientError.inputTooLarge(
                    ChappieInputSize(
                        model: "m", isQuestion: true, estimatedTokens: 530_000, byteCount: 2, suggestion: "wide")), 69,
                "context_window_exceeded", "-m wide"
            ),
            (
                ChappieClientError.inputTooLarge(
                    ChappieInputSize(
                        model: "m", isQuestion: false, byteCount: 2_010_762, pictureCount: 3,
                        pictureByteCount: 1_920_000)), 69, "input_too_large", "which leaves the pictures out"
            ),
            (ChappieClientError.messageTooLarge(bytes: 2, limit: 1), 64, "message_too_large", nil),
            (
                ChappieClientError.planRefused(ChappiePlanRefusal(reason: .notGranted)), 77, "plan_use_not_granted",
                "--route plan"
            ),
            (ChappieAuthError.planUseNotGranted, 77, "plan_use_not_granted", "--route plan"),
            (
                ChappieClientError.planRefused(ChappiePlanRefusal(reason: .capability)), 64, "unsupported_capability",
                nil
            ),
            (ChappieClientError.planRefused(ChappiePlanRefusal(reason: .unavailable)), 69, "plan_unavailable", nil),
            (ChappieClientError.planRefused(ChappiePlanRefusal(reason: .policy)), 69, "plan_refused", nil),
            (ChappieClientError.usageNotReported(nil), 69, "usage_not_reported", nil),
            (ChappieClientError.toolLoopLimitExceeded(1), 69, "tool_loop_limit", nil),
            (ChappieClientError.tooManyTurns, 69, "too_many_turns", nil),
            (ChappieClientError.stopping, 69, "stopping", nil),
            (ChappieClientError.transportFailed(lost), 69, "transport_failed", nil),
            (ChappieClientError.transportFailed(badCA), 64, "configuration", "PEM file"),
            (strange, 65, "invalid_response", nil),
            (
                ChappieClientError.credentialStoreFailed(.absent("none")), 69, "keyring_absent",
                "CHAPPIE_CREDENTIAL_STORE=file"
            ),
            (
                ChappieAuthError.credentialStoreUnavailable(.absent("none")), 69, "keyring_absent",
                "CHAPPIE_CREDENTIAL_STORE=file"
            ),
            (CredentialStoreError.corrupt("torn"), 77, "credential_corrupt", "chappie login"),
            (CredentialStoreError.tooNew("The file", found: 2, known: 1), 65, "newer_format", "Update this program"),
            (ChappieThreadStoreError.tooNew(found: 2, known: 1), 65, "newer_format", "Update this program"),
            (ChappieThreadImportError(.tooNew, reason: "It is."), 65, "newer_format", "Update this program"),
            (CredentialStoreError.noPassphrase("none is set up"), 69, "no_passphrase", "CHAPPIE_PASSPHRASE_FILE"),
            (CredentialStoreError.wrongPassphrase("file"), 69, "wrong_passphrase", nil),
            (CredentialStoreError.busy(.seconds(1)), 69, "credential_busy", nil),
            (CredentialStoreError.notVerified, 69, "credential_store", nil),
            (CommandLineError.usage("Wrong.", suggestion: "Do it right."), 64, "usage", "right"),
        ] as [(any Error, Int32, String, String?)])
    func eachErrorHasItsCodeItsStatusAndItsAdvice(
        _ error: any Error, _ status: Int32, _ code: String, _ advice: String?
    ) {
        let report = CommandLineError(error)
        #expect(report.status.rawValue == status && report.code == code)
        #expect(advice.map { report.suggestion?.contains($0) == true } ?? true)
        #expect(!report.message.isEmpty && !report.message.contains("inside chappie"))
    }

    @Test func anythingElseIsAFaultOfTheProgram() {
        struct Surprise: Error {}
        #expect(CommandLineError(Surprise()).status == .internalError)
    }

    @Test func `the advice about a network that wants a sign-in is given once`() {
        let report = CommandLineError(
            ChappieAuthError.networkFailure("Something answered. \(BlockingPage.networkAdvice)"))
        #expect(report.message == "Something answered.")
        #expect(report.suggestion == BlockingPage.networkAdvice)
    }

    @Test func `a limit resets at a local time`() {
        let date = Date(timeIntervalSince1970: 1_800_000_000)
        let report = CommandLineError(ChappieClientError.usageLimitReached(ChappieUsageLimit(resetsAt: date)))
        #expect(report.message.contains(date.local("%Y-%m-%d %H:%M %z")), "\(report.message)")
    }

    @Test func aReportInJSONHasStableMembers() {
        let report = CommandLineError.usage("Wrong.", suggestion: "Right.")
        #expect(
            report.json.serialized()
                == #"{"type":"error","error":{"code":"usage","message":"Wrong.","suggestion":"Right.","exit_code":64}}"#
        )
        #expect(CommandLineError.usage("Wrong.").json["error"]?["suggestion"] == nil)
    }
}

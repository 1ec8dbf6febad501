// Every call form of the documents that needs no SwiftUI, and those of a store, a logger and middleware of one's own, in
// another program; its tests run them.
import ChappieAuth
import ChappieCore
import ChappieSDK
import Foundation
import FoundationNetworking
import Logging

struct AppUser { let id: String }

@MainActor func show(_ words: Any?...) { print(words) }

// MARK: Sign-in

@MainActor func authState(of authSession: ChappieAuthSession) {
    switch authSession.state {
    case .signedIn:
        print(authSession.accountInfo?.plan?.displayName ?? "Unknown plan")
    case .signedOut:
        show("sign in")
    case .reauthenticationRequired:
        show("sign in again")
    case .failed(let message):
        print("Auth failed:", message)
    default:
        break
    }
    switch authSession.state {
    case .signedOut, .signingIn, .reauthenticationRequired: break
    case .awaitingDeviceCode(userCode: let code, verificationURL: let url): show(code, url)
    case .signedIn(expiresAt: let date): show(date)
    case .failed(let message): show(message)
    }
    switch authSession.deviceLinkState {
    case .idle, .requestingCode, .expired, .cancelled: break
    case .awaitingUserCode(let code), .polling(let code): show(code.userCode, code.verificationURL, code.expiresAt)
    case .linked(expiresAt: let date): show(date)
    case .failed(let error): show(error.localizedDescription, error.requiresReauthentication)
    }
    if let info = authSession.accountInfo {
        print(info.email ?? "No email")
        print(info.plan?.displayName ?? "Unknown plan")
        let (user, account): (String?, String?) = (info.userID, info.accountID)
        let isFedRAMP: Bool = info.isFedRAMPAccount
        show(user, account, isFedRAMP)
    }
    let lastError: ChappieAuthError? = authSession.lastError
    show(lastError, authSession.state.isSignedIn)
}

/// - Parameter approve: stands for the user in a browser.
@MainActor func signIn(
    _ authSession: ChappieAuthSession, approve: @Sendable (ChappieDeviceCode) throws -> Void
) async throws {
    let deviceCode = try await authSession.startDeviceCodeSignIn()
    print("User code:", deviceCode.userCode)
    print("Verification URL:", deviceCode.verificationURL)
    try approve(deviceCode)
    for await state in authSession.stateUpdates where state.isSignedIn { break }
    for await state in authSession.deviceLinkStateUpdates { if case .linked = state { break } }
    try await authSession.refreshAuth()
    authSession.signOut()
    try await authSession.startDeviceCodeSignIn()
    authSession.cancelSignIn()
    try await authSession.signOutAndRevoke()
    let account: ChappieAccountInfo = try await authSession.signIn { code in try approve(code) }
    await authSession.reload()
    await authSession.finishPendingWork()
    show(account)
}

@MainActor func authErrors(_ authSession: ChappieAuthSession) async {
    do {
        try await authSession.refreshAuth()
    } catch ChappieAuthError.expiredDeviceCode {
    } catch ChappieAuthError.cancelledSignIn {
    } catch ChappieAuthError.networkFailure(let message) {
        show(message)
    } catch ChappieAuthError.pollingTimeout {
    } catch ChappieAuthError.callbackTimeout {
    } catch ChappieAuthError.authorizationDenied(let message) {
        show(message)
    } catch ChappieAuthError.tokenExchangeFailed(statusCode: let status, body: let body) {
        show(status, body)
    } catch ChappieAuthError.missingRefreshToken {
    } catch ChappieAuthError.secureRandomFailed(statusCode: let status) {
        let code: Int32 = status
        show(code)
    } catch ChappieAuthError.invalidResponse {
    } catch ChappieAuthError.credentialStoreUnavailable(let reason) {
        show(reason.errorDescription, reason.recoverySuggestion)
    } catch ChappieAuthError.unknown(let message) {
        show(message)
    } catch {
        print(error.localizedDescription)
    }
}

// MARK: Accounts

@MainActor final class UserSession {
    private(set) var authSession: ChappieAuthSession?
    private(set) var client: ChappieClient?

    func signIn(as user: AppUser) {
        let config = ChappieConfiguration(keychainAccount: user.id)
        authSession = Chappie.authSession(configuration: config)
        client = Chappie.client(configuration: config)
    }

    func signOut() {
        authSession?.signOut()
        authSession = nil
        client = nil
    }
}

@MainActor func accounts(_ currentUser: AppUser) {
    let authSession = Chappie.authSession()
    let shared = ChappieConfiguration(
        keychainAccount: currentUser.id,
        keychainAccessGroup: "TEAMID.com.example.shared"
    )
    let config = ChappieConfiguration(
        keychainService: "com.example.myapp",
        keychainAccount: currentUser.id,
        keychainAccessGroup: "TEAMID.com.example.shared",
        keychainAccessibility: .whenUnlockedThisDeviceOnly
    )
    let whole = ChappieConfiguration(
        keychainService: "com.example.myapp", keychainAccount: currentUser.id, keychainAccessGroup: nil,
        keychainAccessibility: .afterFirstUnlockThisDeviceOnly, model: nil, harness: .default,
        rateLimitBackoff: .default, streamingTransportPolicy: .default)
    let noBackoffClient = Chappie.client(rateLimitBackoff: .disabled)
    let client = Chappie.client(
        rateLimitBackoff: ChappieRateLimitBackoffPolicy(
            maxRetries: 3,
            initialDelay: 1,
            maximumDelay: 15
        )
    )
    let policy = ChappieRateLimitBackoffPolicy(
        maxRetries: 2, initialDelay: 1, maximumDelay: 30, respectsRetryAfterHeader: true)
    let (retries, delays): (Int, (TimeInterval, TimeInterval)) = (
        policy.maxRetries, (policy.initialDelay, policy.maximumDelay)
    )
    show(
        authSession, shared == config, whole, noBackoffClient, client, retries, delays, policy.respectsRetryAfterHeader)
}

// MARK: A client's errors

@MainActor func clientErrors(_ client: ChappieClient) async {
    do {
        let reply = try await client.send("Hello")
        show(reply)
    } catch ChappieClientError.missingCredential {
        // User needs to sign in
    } catch ChappieClientError.missingRefreshToken {
    } catch ChappieClientError.missingAccountID {
    } catch ChappieClientError.usageLimitReached(let limit) {
        print(limit.plan?.displayName ?? "Unknown")
        print("Resets:", limit.resetsAt as Any)
        let planName = limit.plan?.displayName ?? "your current plan"
        let resetTime = limit.resetsAt.map { $0.formatted(date: .abbreviated, time: .shortened) }
        let (type, message): (String, String?) = (limit.type, limit.message)
        let seconds: TimeInterval? = limit.resetsInSeconds
        let windows = [limit.rateLimit?.primary, limit.rateLimit?.secondary].compactMap { $0 }
        for window in windows { show(window.usedPercent, window.windowMinutes, window.resetsAt) }
        show(planName, resetTime, type, message, seconds, limit.requestID)
    } catch ChappieClientError.reauthenticationRequired(let message) {
        show(message)
    } catch ChappieClientError.missingToolHandler(let name) {
        show(name)
    } catch ChappieClientError.toolApprovalDenied(let name, let reason) {
        show(name, reason)
    } catch ChappieClientError.toolExecutionFailed(let name, let message) {
        show(name, message)
    } catch ChappieClientError.responseFailed(let response) {
        show(response.status, response.error?.message, response.requestID)
    } catch ChappieClientError.httpError(let status, let body) {
        let (code, text): (Int, String) = (status, body)
        print("HTTP \(code): \(text)")
    } catch ChappieClientError.streamingTransportReplayDiverged(let partial) {
        show(partial.isEmpty)
    } catch ChappieClientError.toolLoopLimitExceeded(let limit) {
        print("Exceeded \(limit) tool call rounds")
    } catch ChappieClientError.invalidResponse {
    } catch ChappieClientError.transportFailed(let error) {
        show(error.host)
    } catch ChappieClientError.contextWindowExceeded {
    } catch ChappieClientError.inputTooLarge(let size) {
        show(size.estimatedTokens, size.contextWindow, size.isQuestion)
    } catch ChappieClientError.messageTooLarge(bytes: let bytes, limit: let limit) {
        show(bytes, limit)
    } catch let error as ChappieClientError {
        show(error.errorDescription, error.recoverySuggestion, error.requestID)
    } catch {
        print(error.localizedDescription)
    }
}

@MainActor func streams(_ client: ChappieClient) async throws {
    let handle = client.startStream(.user("Hello", fastMode: true))
    do {
        for try await event in handle.events {
            switch event {
            case .textDelta(let text): print(text, terminator: "")
            case .completed: print()
            default: break
            }
        }
    } catch is CancellationError {
        // Normal stream cancellation — no action needed
    } catch let error as URLError where error.code == .cancelled {
        // Also normal — treat the same as CancellationError
    } catch {
        print("Stream failed: \(error.localizedDescription)")
    }
    handle.cancel()
    show(try await handle.response().outputText)
    for try await text in client.stream("Hello").text { print(text, terminator: "") }
    for try await text in client.stream(.user("Hello")).text { print(text, terminator: "") }
    let request = ChappieResponseRequest(
        messages: [.system("Be brief."), .developer("No lists."), .assistant("Yes?"), .user("Hello")],
        options: ChappieMessageOptions(fastMode: true, verbosity: .low), model: "gpt-6-sol")
    for try await event in client.streamResponse(request) {
        if case .completed(let response) = event { show(response) }
    }
    let response = try await client.response(request)
    show(response.id, response.status, response.outputText, response.items, response.usage?.totalTokens)
    show(response.requestID, response.error, response.incompleteReason, response.raw)
    await client.cancel()
}

// MARK: A store, a logger and middleware of one's own

actor OwnStore: CredentialStore {
    private var secrets: [CredentialSlot: Secret] = [:]

    func load(_ slot: CredentialSlot) -> Secret? { secrets[slot] }
    func save(_ secret: Secret, in slot: CredentialSlot) { secrets[slot] = secret }
    func delete(_ slot: CredentialSlot) { secrets[slot] = nil }
}

struct Tracing: HTTPMiddleware {
    func intercept(
        _ request: HTTPExchangeRequest,
        next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        let response = try await next(request)
        print(request.url, response.status)
        return response
    }
}

@MainActor func adopt(isTest: Bool) async {
    let configuration = ChappieConfiguration(keychainAccount: "someone")
    let logger = Logger(label: "com.example.myapp")
    let own = OwnStore()
    let anyStore: any CredentialStore = own
    let storage: ChappieCredentialStorage = isTest ? .memory : .encryptedFile(passphrase: .environment)
    let sessions = [
        Chappie.authSession(store: .keyring), Chappie.authSession(configuration: configuration, store: storage),
        Chappie.authSession(store: .encryptedFile(passphrase: .file("/run/secrets/passphrase"))),
        Chappie.authSession(store: .encryptedFile(passphrase: { "asked for" }), logger: logger),
        Chappie.authSession(store: .encryptedFile(passphrase: "a test's")), Chappie.authSession(store: .custom(own)),
        await Chappie.loadedAuthSession(), await Chappie.loadedAuthSession(store: .memory, logger: logger),
        await Chappie.loadedAuthSession(
            configuration: configuration,
            store: .encryptedFile(
                passphrase: .asking { isNew in isNew ? "asked for twice" : nil }, directory: "/var/lib/myapp")),
        await Chappie.loadedAuthSession(store: .custom(anyStore)),
        Chappie.authSession(store: .custom(own), logger: logger),
    ]
    let clients = [
        Chappie.client(store: .memory), Chappie.client(configuration: configuration, store: .custom(own)),
        Chappie.client(
            configuration: configuration, harness: "Be brief.", store: storage, logger: logger,
            middleware: [Tracing()], rateLimitBackoff: .disabled, streamingTransportPolicy: .httpSSEOnly),
        Chappie.client(harness: .none, store: .custom(anyStore), middleware: [Tracing()]),
    ]
    show(sessions, clients)
}

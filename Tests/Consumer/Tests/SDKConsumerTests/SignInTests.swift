import ChappieSDK
import ChappieSDKTesting
import Foundation
import Testing

@MainActor @Suite struct SignInTests {
    @Test func aDeviceCodeIsShownApprovedAndLinked() async throws {
        try await Simulated.run(signedIn: false) { simulated in
            let authSession = await simulated.session()
            let (states, linkStates) = (authSession.stateUpdates, authSession.deviceLinkStateUpdates)
            let deviceCode: ChappieDeviceCode = try await authSession.startDeviceCodeSignIn()
            #expect(!deviceCode.userCode.isEmpty)
            #expect(deviceCode.verificationURL == simulated.simulator.verificationPage)
            let (end, interval): (Date?, Duration) = (deviceCode.expiresAt, deviceCode.pollInterval)
            #expect(try #require(end) > Date.now && interval >= .seconds(1))
            try simulated.simulator.approve(userCode: deviceCode.userCode)

            var seen: [String] = []
            for await state in states {
                switch state {
                case .signedOut: seen.append("signedOut")
                case .signingIn: seen.append("signingIn")
                case .awaitingDeviceCode(userCode: let code, verificationURL: let url):
                    #expect(code == deviceCode.userCode && url == deviceCode.verificationURL)
                    seen.append("awaitingDeviceCode")
                case .signedIn(expiresAt: let date): seen.append(date == nil ? "unknown" : "signedIn")
                case .reauthenticationRequired: seen.append("reauthenticationRequired")
                case .failed(let message): seen.append(message)
                }
                if state.isSignedIn { break }
            }
            #expect(seen == ["signedOut", "signingIn", "awaitingDeviceCode", "signedIn"])
            seen = []
            for await state in linkStates {
                switch state {
                case .idle: seen.append("idle")
                case .requestingCode: seen.append("requestingCode")
                case .awaitingUserCode(let code): seen.append("awaiting \(code.userCode)")
                case .polling(let code): seen.append("polling \(code.userCode)")
                case .linked(expiresAt: let date): seen.append(date == nil ? "unknown" : "linked")
                case .expired: seen.append("expired")
                case .cancelled: seen.append("cancelled")
                case .failed(let error): seen.append(error.localizedDescription)
                }
                if case .linked = state { break }
            }
            let code = deviceCode.userCode
            #expect(seen == ["idle", "requestingCode", "awaiting \(code)", "polling \(code)", "linked"])

            let info = try #require(authSession.accountInfo)
            let (email, user, account): (String?, String?, String?) = (info.email, info.userID, info.accountID)
            #expect(email == "ada@example.com")
            #expect(user == "user-simulated")
            #expect(account?.hasPrefix("acct_") == true)
            #expect(info.plan == .plus)
            #expect(info.plan?.displayName == "Plus")
            #expect(!info.isFedRAMPAccount)
            #expect(authSession.lastError == nil && authSession.lastStoreError == nil)

            try await authSession.refreshAuth()
            await authSession.finishPendingWork()
            // A returning user is signed in at once.
            #expect(
                Chappie.authSession(configuration: simulated.configuration, store: .custom(simulated.store)).state
                    .isSignedIn)
            // What one issuer gave is not there for another.
            var elsewhere = simulated.configuration
            elsewhere.endpoints = ChappieEndpoints(
                issuer: try #require(URL(string: "http://127.0.0.1:1")), backend: simulated.simulator.backend)
            let other = await Chappie.loadedAuthSession(configuration: elsewhere, store: .custom(simulated.store))
            #expect(other.state == .signedOut)
            other.signOut()

            #expect(authSession.state.isSignedIn)
            authSession.signOut()
            #expect(authSession.state == .signedOut && authSession.deviceLinkState == .idle)
            #expect(authSession.accountInfo == nil)
            #expect(
                Chappie.authSession(configuration: simulated.configuration, store: .custom(simulated.store)).state
                    == .signedOut)
            try await authSession.signOutAndRevoke()
        }
    }

    @Test func oneCallShowsTheCodeAndReturnsTheAccount() async throws {
        try await Simulated.run(signedIn: false) { simulated in
            let (session, simulator) = (await simulated.session(), simulated.simulator)
            var shown: [String] = []
            let account = try await session.signIn { code in
                shown.append(code.userCode)
                // The session polls already, or is about to.
                switch session.deviceLinkState {
                case .awaitingUserCode(let known), .polling(let known): #expect(known == code)
                case let state: Issue.record("\(state)")
                }
                try? simulator.approve(userCode: code.userCode)
            }
            #expect(shown.count == 1 && account == session.accountInfo)
            #expect(try await simulated.client().accountInfo() == account)
            // The closure may wait, and it may fail, which ends the sign-in; a user who is signed in stays so.
            try await session.signIn { code in
                await Task.yield()
                try simulator.approve(userCode: code.userCode)
            }
            await #expect(throws: SimulatorError.self) {
                try await session.signIn { _ in try simulator.approve(userCode: "no such code") }
            }
            #expect(session.deviceLinkState == .cancelled && session.state.isSignedIn)
        }
    }

    @Test func aRefusalACancellationAndAFailureAreTold() async throws {
        try await Simulated.run(signedIn: false) { simulated in
            let (session, simulator) = (await simulated.session(), simulated.simulator)
            do {
                _ = try await session.signIn { code in try simulator.refuse(userCode: code.userCode) }
                Issue.record("signed in")
            } catch ChappieAuthError.authorizationDenied(let message) {
                #expect(session.lastError == .authorizationDenied(message) && session.state == .failed(message))
                #expect(session.deviceLinkState == .failed(.authorizationDenied(message)))
            }
            await #expect(throws: ChappieAuthError.cancelledSignIn) {
                try await session.signIn { _ in session.cancelSignIn() }
            }
            #expect(session.deviceLinkState == .cancelled)
            #expect(session.state == .signedOut)
            #expect(session.lastError == nil)
            simulated.store.fail(.load, with: .locked("the keyring is locked"), times: 1)
            let later = await simulated.session()
            #expect(later.lastStoreError == .locked("the keyring is locked") && !later.state.isSignedIn)
            await later.reload()
            #expect(later.state == .signedOut)
        }
    }

    @Test func `a credential that can't be renewed asks for a new sign-in`() async throws {
        try await Simulated.run("refresh-invalidated") { simulated in
            let session = await simulated.session()
            do {
                try await session.refreshAuth()
                Issue.record("renewed")
            } catch let error as ChappieAuthError {
                #expect(error.requiresReauthentication && session.lastError == error)
            }
            #expect(session.state == .reauthenticationRequired && session.deviceLinkState == .idle)
        }
        // The session says the same as a client whose token is refused.
        try await Simulated.run("unauthorized-storm") { simulated in
            let session = await simulated.session()
            do {
                _ = try await simulated.client().send("Hello")
                Issue.record("answered")
            } catch ChappieClientError.reauthenticationRequired(let message) {
                for await state in session.stateUpdates where state == .reauthenticationRequired { break }
                #expect(session.lastError?.localizedDescription == message)
            }
        }
    }

    @Test func everyAuthErrorHasASentenceAndANextStep() {
        let errors: [ChappieAuthError] = [
            .expiredDeviceCode, .cancelledSignIn, .networkFailure("The network is down."), .pollingTimeout,
            .callbackTimeout, .authorizationDenied("No."), .tokenExchangeFailed(statusCode: 400, body: "{}"),
            .tokenExchangeFailed(statusCode: 400, body: #"{"error":"invalid_grant"}"#), .missingRefreshToken,
            .secureRandomFailed(statusCode: 5), .invalidResponse, .unknown("Something."),
            .blockedByGateway("auth.example.com"),
            .credentialStoreUnavailable(.absent("there is no session bus")),
            .reauthenticationRequired("Sign in again."), .missingCredential, .missingAccountID,
            .wrongCallbackAddress("This is another address."), .planUseNotGranted, .renewableLater(Date()),
            .callbackUnavailable("No port is free."), .tooManyRequests(retryAfter: .seconds(60)),
        ]
        for error in errors {
            #expect(error.localizedDescription == error.errorDescription)
            #expect(error.errorDescription?.hasSuffix(".") == true && error.recoverySuggestion?.isEmpty == false)
            let isFinal =
                switch error {
                case .missingCredential, .missingAccountID, .missingRefreshToken, .reauthenticationRequired: true
                case .tokenExchangeFailed(statusCode: let status, body: let body):
                    status == 400 && body.contains("invalid_grant")
                case .expiredDeviceCode, .cancelledSignIn, .pollingTimeout, .callbackTimeout, .invalidResponse,
                    .planUseNotGranted, .renewableLater, .tooManyRequests:
                    false
                case .networkFailure(let words), .authorizationDenied(let words), .unknown(let words),
                    .blockedByGateway(let words), .wrongCallbackAddress(let words), .callbackUnavailable(let words):
                    words.isEmpty
                case .secureRandomFailed(statusCode: let status): status == Int32(0)
                case .credentialStoreUnavailable(let error): error.recoverySuggestion == nil
                }
            #expect(error.requiresReauthentication == isFinal, "\(error)")
        }
    }
}

/// From outside of the main actor.
@Test func anActorSignsIn() async throws {
    actor Door {
        func open(_ session: ChappieAuthSession, _ simulator: Simulator) async throws -> Bool {
            try await session.signIn { code in try simulator.approve(userCode: code.userCode) }
            return await session.state.isSignedIn
        }
    }
    try await Simulated.run(signedIn: false) { simulated in
        let isSignedIn = try await Door().open(simulated.session(), simulated.simulator)
        #expect(isSignedIn)
    }
}

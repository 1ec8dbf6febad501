import ChappieSDK
import ChappieSDKTesting
import Testing

@testable import sdk_consumer

@MainActor @Suite struct DocumentsTests {
    @Test func theDocumentsFormsRun() async throws {
        try await Simulated.run(signedIn: false) { simulated in
            let (session, client) = (await simulated.session(), simulated.client())
            authState(of: session)
            await authErrors(session)
            #expect(session.lastError != nil)
            await clientErrors(client)
            try await signIn(session) { code in try simulated.simulator.approve(userCode: code.userCode) }
            #expect(session.state.isSignedIn)
            authState(of: session)
            await authErrors(session)
            #expect(session.lastError == nil)
            await clientErrors(client)
            try await streams(client)
            #expect(await client.context().messageCount == 18)
        }
    }

    /// With the stores of this user, who has nothing in them.
    @Test func sessionsOfManyUsersAndStoresAreMade() async {
        let user = UserSession()
        user.signIn(as: AppUser(id: "user-1"))
        #expect(user.authSession?.accountInfo == nil && user.client != nil)
        user.signOut()
        #expect(user.authSession == nil && user.client == nil)
        accounts(AppUser(id: "user-1"))
        await adopt(isTest: true)
    }
}

@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Against the real KWallet.
@Suite(.enabled(if: SystemProgram.kwallets.areUsable, "\(SystemProgram.kwallets.absence)"))
struct KWalletTests {
    private let slot = CredentialSlot()

    @Test func `a wallet that is open is used although it says that it is locked`() async throws {
        let wallet = try await PrivateKWallet()
        #expect(try await wallet.isLocked())
        #expect(try await wallet.store.load(slot) == nil)
        try await wallet.store.save(Secret("secret"), in: slot)
        #expect(try await wallet.store.load(slot) == Secret("secret"))
        #expect(try !wallet.hasShownAWindow())
    }

    @Test func `each call of the store opens the wallet`() async throws {
        for call in ["prepare", "save", "delete"] {
            let wallet = try await PrivateKWallet()
            switch call {
            case "prepare": try await wallet.store.prepareToSave(in: slot)
            case "save": try await wallet.store.save(Secret("secret"), in: slot)
            default: try await wallet.store.delete(slot)
            }
        }
    }

    /// One program for all cases: starting it takes longer than any of them.
    @Test func `the store keeps its contract with KWallet`() async throws {
        let wallet = try await PrivateKWallet()
        for demand in CredentialStoreContract.cases {
            do {
                try await demand.run(wallet.store)
            } catch {
                Issue.record(error, "\(demand)")
            }
        }
    }

    @Test(arguments: [(false, ""), (true, "Prompt on Open=true")])
    func `no window is left where the user would be asked`(isOpen: Bool, settings: String) async throws {
        let wallet = try await PrivateKWallet(isOpen: isOpen, settings: settings)
        await #expect(throws: CredentialStoreError.isLocked) { try await wallet.store.load(slot) }
        await #expect(throws: CredentialStoreError.isLocked) { try await wallet.store.save(Secret("x"), in: slot) }
        #expect(try await wallet.isLocked())
        #expect(try !wallet.hasShownAWindow())
    }

    @Test(
        arguments: [
            ("Prompt on Open=true", nil, true), ("Prompt on Open=false", nil, false), ("First Use=false", nil, false),
            (nil, nil, false), (nil, "Prompt on Open=true", true), ("Prompt on Open = on ", nil, true),
            ("Prompt on Open=false", "Prompt on Open=true", false), ("Prompt on Open[$i]=true", nil, true),
        ] as [(String?, String?, Bool)])
    func `the user's own settings say whether KWallet asks about each program`(
        own: String?, machine: String?, asks: Bool
    ) throws {
        let (user, system) = (try TemporaryDirectory(), try TemporaryDirectory())
        if let own { _ = try user.write("[Wallet]\n\(own)\n", to: "kwalletrc") }
        if let machine { _ = try system.write("[Wallet]\n\(machine)\n", to: "kwalletrc") }
        let environment = ["XDG_CONFIG_HOME": user.path, "XDG_CONFIG_DIRS": "/nowhere:\(system.path)"]
        #expect(KWallet.asksAboutEachProgram(environment) == asks)
    }
}

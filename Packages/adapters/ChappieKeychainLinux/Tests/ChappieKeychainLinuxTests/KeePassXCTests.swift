@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Against the real KeePassXC.
@Suite(.tags(.slow), .enabled(if: SystemProgram.keePassXCs.areUsable, "\(SystemProgram.keePassXCs.absence)"))
struct KeePassXCTests {
    private let slot = CredentialSlot(account: "work", accessGroup: "team")

    /// One program for all cases: starting it takes longer than any of them.
    @Test func `KeePassXC keeps the contract, and a person can read what the entry is`() async throws {
        let keePassXC = try await PrivateKeePassXC()
        for demand in CredentialStoreContract.cases {
            do {
                try await demand.run(keePassXC.store)
            } catch {
                Issue.record(error, "\(demand)")
            }
        }
        try await keePassXC.store.save(Secret("x"), in: slot)
        let lines = try await keePassXC.bus.searchSecrets("account", "work")
        #expect(
            Set(lines).isSuperset(of: [
                "label = Chappie credential for work (com.chappie.sdk)", "secret = x",
                "attribute.service = com.chappie.sdk", "attribute.account = work", "attribute.access-group = team",
            ]), "\(lines)")
    }

    @Test func aLockedDatabaseIsLocked() async throws {
        let keePassXC = try await PrivateKeePassXC()
        try await keePassXC.store.save(Secret("x"), in: slot)
        try await keePassXC.lock()
        await #expect(throws: CredentialStoreError.isLocked) { try await keePassXC.store.load(slot) }
        await #expect(throws: CredentialStoreError.isLocked) { try await keePassXC.store.save(Secret("y"), in: slot) }
    }

    @Test func anEntryThatHasToBeConfirmedIsLocked() async throws {
        let keePassXC = try await PrivateKeePassXC(confirmsAccess: true)
        try await keePassXC.store.save(Secret("x"), in: slot)
        // The connection that has made an entry may read it; another way to the bus has another connection.
        let address = keePassXC.bus.address + ";" + keePassXC.bus.address
        await #expect(throws: CredentialStoreError.isLocked) {
            try await SecretServiceCredentialStore.forTests(on: address).load(slot)
        }
        // The question goes unanswered, and is taken back.
        let asking = SecretServiceCredentialStore.forTests(
            on: address, unlocking: .promptAllowed(deadline: .milliseconds(500)))
        await inGoodTime { await refusal("") { _ = try await asking.load(slot) } }
    }
}

/// The real KeePassXC, without a screen, with a database of its own that its Secret Service exposes.
private struct PrivateKeePassXC {
    let bus: PrivateBus

    /// - Parameter confirmsAccess: Whether KeePassXC asks the user before it shows an entry to a program.
    init(confirmsAccess: Bool = false) async throws {
        bus = try await PrivateBus()
        let variables = ["QT_QPA_PLATFORM": "offscreen"]
        let content = try bus.directory.write(Self.content, to: "database.xml")
        let settings = try bus.directory.write(Self.settings(confirmsAccess: confirmsAccess), to: "settings.ini")
        let database = bus.directory.path("database.kdbx")
        let password = "correct horse battery staple\n"
        try await SystemProgram.keePassXCTool.run(
            ["import", "--set-password", "--decryption-time", "100", content, database],
            environment: bus.environment.merging(variables) { $1 }, input: .text(password + password))
        let arguments = [
            "--config", settings, "--localconfig", bus.directory.path("local.ini"), "--pw-stdin", database,
        ]
        try await bus.start(.keePassXC, arguments, variables: variables, input: .text(password))
        try await bus.wait(for: "org.freedesktop.secrets")
        // The name is there before the database, and the database before it is open; a client that comes in between
        // would make KeePassXC ask for the password in a window.
        try await waitUntilLocked(is: false)
    }

    var store: SecretServiceCredentialStore { .forTests(on: bus.address) }

    /// Locks the database, for which KeePassXC has a prompt that shows nothing.
    func lock() async throws {
        let answer = try await bus.callSecrets(
            "org.freedesktop.Secret.Service.Lock", "[objectpath '/org/freedesktop/secrets/collection/database']")
        if let prompt = answer.split(separator: "'").map(String.init).first(where: { $0.contains("/prompt/") }) {
            try await bus.callSecrets("org.freedesktop.Secret.Prompt.Prompt", at: prompt, "")
        }
        try await waitUntilLocked(is: true)
    }

    private func waitUntilLocked(is expected: Bool) async throws {
        let get = "org.freedesktop.DBus.Properties.Get"
        let database = "/org/freedesktop/secrets/collection/database"
        let hasCome = try await eventually {
            // An object that is not there: locked, or not yet exposed.
            guard
                let answer = try? await bus.callSecrets(
                    get, at: database, "org.freedesktop.Secret.Collection", "Locked")
            else { return expected }
            return answer.contains("\(expected)")
        }
        guard hasCome else { throw FixtureFailure("KeePassXC's database stayed as it was") }
    }

    /// KeePassXC exposes the group that the database itself names.
    private static let content = """
        <?xml version="1.0" encoding="UTF-8"?>
        <KeePassFile>
          <Meta>
            <DatabaseName>Tests</DatabaseName>
            <CustomData>
              <Item>
                <Key>FDO_SECRETS_EXPOSED_GROUP</Key>
                <Value>{00010203-0405-0607-0809-0a0b0c0d0e0f}</Value>
              </Item>
            </CustomData>
          </Meta>
          <Root><Group><UUID>AAECAwQFBgcICQoLDA0ODw==</UUID><Name>Root</Name></Group></Root>
        </KeePassFile>
        """

    /// KeePassXC saves on a thread of its own, and 2.7.4 crashes when an entry is removed while that thread writes it
    /// (about once in eight runs of the contract): it saves when it locks, and not after every change.
    private static func settings(confirmsAccess: Bool) -> String {
        """
        [General]
        ConfigVersion=2
        UpdateCheckMessageShown=true
        AutoSaveAfterEveryChange=false
        AutoSaveOnExit=true
        [GUI]
        CheckForUpdates=false
        ShowTrayIcon=false
        [FdoSecrets]
        Enabled=true
        ShowNotification=false
        ConfirmAccessItem=\(confirmsAccess)
        ConfirmDeleteItem=false
        UnlockBeforeSearch=false
        """
    }
}

@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Against the real KeePassXC.
@Suite(.tags(.slow), .enabled(if: SystemProgram.keePassXCs.areUsable, "\(SystemProgram.keePassXCs.absence)"))
struct KeePassXCTests {
    private let slot = CredentialSlot(account: "work", accessGroup: "team")

    /// One program for all cases: starting it takes longer than any of them.
    @Test func keepsTheContract() async throws {
        let keePassXC = try await PrivateKeePassXC()
        for demand in CredentialStoreContract.cases {
            do {
                try await demand.run(keePassXC.store)
            } catch {
                Issue.record(error, "\(demand)")
            }
        }
    }

    @Test func aPersonCanReadWhatTheEntryIs() async throws {
        let keePassXC = try await PrivateKeePassXC()
        try await keePassXC.store.save(Secret("x"), in: slot)
        let text = try await keePassXC.bus.searchSecrets("service", "com.chappie.sdk")
        let lines = Set(text.split(separator: "\n").map(String.init))
        #expect(
            lines.isSuperset(of: [
                "label = Chappie credential for work (com.chappie.sdk)", "secret = x",
                "attribute.service = com.chappie.sdk", "attribute.account = work", "attribute.access-group = team",
            ]), "\(text)")
    }

    @Test func aLockedDatabaseIsLocked() async throws {
        let keePassXC = try await PrivateKeePassXC()
        try await keePassXC.store.save(Secret("x"), in: slot)
        try await keePassXC.lock()
        let locked = CredentialStoreError.isLocked
        await #expect(throws: locked) { try await keePassXC.store.load(slot) }
        await #expect(throws: locked) { try await keePassXC.store.save(Secret("y"), in: slot) }
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
        let limit = Duration.milliseconds(500)
        let asking = SecretServiceCredentialStore.forTests(
            on: address, unlocking: .promptAllowed(deadline: limit))
        let start = ContinuousClock.now
        await #expect(throws: CredentialStoreError.self) { try await asking.load(slot) }
        #expect(ContinuousClock.now - start < Patience.limit)
    }
}

/// The real KeePassXC, without a screen, with a database of its own that its Secret Service exposes.
struct PrivateKeePassXC {
    let bus: PrivateBus

    private static let password = "correct horse battery staple"

    /// - Parameter confirmsAccess: Whether KeePassXC asks the person before it shows an entry to a program.
    init(confirmsAccess: Bool = false) async throws {
        bus = try await PrivateBus()
        let directory = bus.directory
        let variables = ["QT_QPA_PLATFORM": "offscreen"]
        let content = try directory.write(Self.content, to: "database.xml")
        let settings = try directory.write(Self.settings(confirmsAccess: confirmsAccess), to: "settings.ini")
        let database = directory.path("database.kdbx")
        try await SystemProgram.keePassXCTool.run(
            ["import", "--set-password", "--decryption-time", "100", content, database],
            environment: bus.environment.merging(variables) { $1 }, input: .text("\(Self.password)\n\(Self.password)\n")
        )
        try await bus.start(
            .keePassXC,
            [
                "--config", settings, "--localconfig", directory.path("local.ini"), "--pw-stdin",
                database,
            ], variables: variables, input: .text("\(Self.password)\n"))
        try await bus.wait(for: "org.freedesktop.secrets")
        try await waitUntilOpen()
    }

    var store: SecretServiceCredentialStore { .forTests(on: bus.address) }

    /// Locks the database, for which KeePassXC has a prompt that shows nothing.
    func lock() async throws {
        let name = "org.freedesktop.secrets"
        let answer = try await bus.call(
            "org.freedesktop.Secret.Service.Lock", at: "/org/freedesktop/secrets", in: name,
            "[objectpath '/org/freedesktop/secrets/collection/database']")
        if let prompt = answer.split(separator: "'").map(String.init).first(where: { $0.contains("/prompt/") }) {
            try await bus.call("org.freedesktop.Secret.Prompt.Prompt", at: prompt, in: name, "")
        }
        try await wait(untilLockedIs: true)
    }

    /// The name is there before the database, and the database before it is open; a client that comes in between would
    /// make KeePassXC ask for the password in a window.
    private func waitUntilOpen() async throws { try await wait(untilLockedIs: false) }

    private func wait(untilLockedIs expected: Bool) async throws {
        let clock = ContinuousClock()
        let end = clock.now + .seconds(60)
        // Each question is a program of its own, which paces the loop.
        while try await isLocked() != expected {
            guard clock.now < end else { throw FixtureFailure("KeePassXC's database stayed as it was") }
        }
    }

    private func isLocked() async throws -> Bool {
        let name = "org.freedesktop.secrets"
        let collections = try await bus.call(
            "org.freedesktop.DBus.Properties.Get", at: "/org/freedesktop/secrets", in: name,
            "org.freedesktop.Secret.Service", "Collections")
        guard collections.contains("/collection/database") else { return true }
        return try await bus.call(
            "org.freedesktop.DBus.Properties.Get", at: "/org/freedesktop/secrets/collection/database", in: name,
            "org.freedesktop.Secret.Collection", "Locked"
        ).contains("true")
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

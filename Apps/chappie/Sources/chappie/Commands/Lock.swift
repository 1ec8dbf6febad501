import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieCrypto
import ChappieSDK

/// The command `chappie lock`. It drops the key of the encrypted file that the kernel keeps.
struct Lock: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Drop the kept key of the encrypted credential file.",
        discussion: """
            After a command has used the passphrase of the encrypted file, the kernel keeps the key that was derived \
            from it in this login session for 15 minutes after its last use (see keyrings(7)). The next command then \
            needs neither the passphrase nor the time for a new key. A passphrase file that was changed is read again.

            `chappie config set keep_key false` keeps no key. `chappie logout` drops the key, too.

            With --json: {"locked":true,"was_kept":true|false}.
            """)

    @OptionGroup var options: GlobalOptions

    func run(on console: Console, _ environment: ProgramEnvironment) async throws {
        let wasKept = EncryptedFileCredentialStore.dropKeptKeys()
        if options.json {
            console.json(["locked": true, "was_kept": .bool(wasKept)])
        } else {
            console.line(wasKept ? "The key of the encrypted file is no longer kept." : "No key was kept.")
        }
    }
}

import ChappieKeychainLinux
import ChappieSDK

/// Asks once where credentials are to lie, on a machine without a keyring to keep them in.
enum StoreChoice {
    /// The store to sign in with: the chosen one; else the keyring where there is one; else what the person says, which is
    /// remembered. Without a terminal nobody is asked, and the keyring's own error follows.
    static func settle(_ settings: Settings, environment: ProgramEnvironment, isJSON: Bool) async throws -> Settings {
        guard !settings.isStoreChosen, !isJSON, Terminal.inputIsTerminal, Terminal.outputIsTerminal else {
            return settings
        }
        do throws(CredentialStoreError) {
            try await SecretServiceCredentialStore().prepareToSave(in: settings.configuration.credentialSlot)
            return settings
        } catch {
            guard case .absent(let reason) = error else { return settings }
            Output.line("No keyring was found here: \(reason).")
        }
        Output.line("The credential can lie in an encrypted file instead, under a passphrase of yours.")
        Output.write("Use an encrypted file? [y/N] ")
        var input = StandardInput()
        guard let answer = try input.readLine(), ["y", "yes"].contains(answer.lowercased()) else { return settings }
        try UserSettings.change(environment) { $0.store = Settings.Store.file.rawValue }
        var settings = settings
        settings.store = .file
        Output.line("Remembered. (CHAPPIE_CREDENTIAL_STORE overrides it.)\n")
        return settings
    }
}

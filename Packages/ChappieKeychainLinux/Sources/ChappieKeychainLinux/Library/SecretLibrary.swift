import CSecret
import ChappieAuth

/// libsecret as the machine has it.
enum SecretLibrary {
    /// The name that libsecret has had since its first stable release.
    static let name = "libsecret-1.so.0"

    /// Opened once per process and kept: GObject types can't be unloaded.
    private static let opened = open(name)

    /// Makes the functions of CSecret usable.
    ///
    /// - Throws: `absent` when the library is missing or too old.
    static func require() throws(CredentialStoreError) { try opened.get() }

    /// Apart from ``require()`` only so that a test can name a library that isn't there.
    static func open(_ name: String) -> Result<Void, CredentialStoreError> {
        guard let problem = csecret_open(name) else { return .success(()) }
        let words = LibraryFault.clean(String(cString: problem))
        return .failure(.absent("the library libsecret could not be opened (\(words)); Debian calls it libsecret-1-0"))
    }
}

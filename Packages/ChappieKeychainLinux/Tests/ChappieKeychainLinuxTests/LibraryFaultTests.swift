import ChappieAuth
import Testing

@testable import ChappieKeychainLinux

struct LibraryFaultTests {
    private let deadline = Duration.seconds(5)

    @Test(
        arguments: [
            // Numbers of the Secret Service's, D-Bus's and GIO's own error tables.
            (.secret, 2, .working, .locked("the keyring service will not use it before it is unlocked")),
            (.secret, 3, .working, .failed("words")),
            (.bus, 2, .working, .absent("no keyring service (org.freedesktop.secrets) is on the session bus")),
            (.bus, 3, .working, .absent("no keyring service (org.freedesktop.secrets) is on the session bus")),
            (.bus, 23, .working, .absent("the keyring service could not be started (words)")),
            (.bus, 34, .working, .absent("the keyring service could not be started (words)")),
            (.bus, 9, .working, .denied("words")),
            (.bus, 10, .connecting, .denied("words")),
            (.bus, 20, .working, .timedOut(.seconds(5))),
            (.bus, 4, .working, .failed("words")),
            (.io, 14, .connecting, .denied("words")),
            (.io, 18, .working, .failed("the session bus closed the connection")),
            (.io, 19, .working, .denied("the prompt was dismissed")),
            (.io, 24, .working, .timedOut(.seconds(5))),
            (.io, 1, .connecting, .absent("the session bus can't be reached (words)")),
            (.io, 39, .connecting, .absent("the session bus can't be reached (words)")),
            (.other, 7, .working, .failed("words")),
        ] as [(LibraryFault.Domain, Int, LibraryFault.Stage, CredentialStoreError)])
    func meansWhatItSays(
        domain: LibraryFault.Domain, code: Int, stage: LibraryFault.Stage, meaning: CredentialStoreError
    ) {
        let fault = LibraryFault(domain: domain, code: code, message: "words")
        #expect(fault.meaning(at: stage, deadline: deadline) == meaning)
    }

    @Test(arguments: [
        ("Not allowed.", "Not allowed"),
        ("one\ntwo\r\nthree. ", "one two three"),
        ("bell \u{7} and escape \u{1B}[31m", "bell   and escape  [31m"),
        ("", "no reason given"),
        ("...", "no reason given"),
    ])
    func wordsFromOutsideBecomeOneLine(words: String, clean: String) {
        #expect(LibraryFault.clean(words) == clean)
    }

    @Test func wordsFromOutsideAreBounded() {
        #expect(LibraryFault.clean(String(repeating: "x", count: 100_000)).count == 300)
    }
}

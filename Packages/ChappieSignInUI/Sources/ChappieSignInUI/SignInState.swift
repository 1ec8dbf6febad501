public import ChappieAuth

/// Everything that a face shows of a sign-in, in words: it draws this and decides nothing.
public struct ChappieSignInState: Sendable, Hashable {
    /// The button's words.
    public var title: String
    /// Whether the button can be pressed: not while a sign-in is running.
    public var isEnabled = true
    /// Whether there is no button: a user is signed in.
    public var isHidden = false
    /// Whether a sign-in is running.
    public var isInProgress = false
    /// Whether the sheet with the steps is up. It stays for the sentence about a sign-in that failed.
    public var isSheetPresented = false
    /// The three steps of the sheet, in order.
    public var steps: [ChappieSignInStep] = []
    /// The code, while it waits for approval.
    public var deviceCode: ChappieDeviceCode?
    /// For how much longer the code is good, in whole seconds; `nil` where that is not known.
    public var remaining: Duration?
    /// ``remaining`` as a sentence.
    public var countdown: String?
    /// What the desktop did or could not do in this sign-in, one for each of its parts.
    public var notices: [ChappieSignInNotice] = []
    /// The end of the last sign-in, until the next one begins or the user puts it away.
    public var ending: ChappieSignInEnding?

    /// A state for previews and tests; everything else has a value.
    public init(title: String) { self.title = title }
}

/// One of the three things that the user does.
public struct ChappieSignInStep: Sendable, Hashable, Identifiable {
    /// Which one it is.
    public enum Kind: Sendable, Hashable, CaseIterable {
        /// The page is opened; ``ChappieSignInModel/openPage()`` does it.
        case openPage
        /// The user confirms on the page.
        case continueWithChatGPT
        /// The user enters the code; ``ChappieSignInModel/copyCode()`` helps.
        case enterCode
    }

    /// Which one it is.
    public let kind: Kind
    /// The words for it.
    public let texts: ChappieSignInTexts.Step
    /// Whether its button can be pressed: the code is there, and so is the browser or the clipboard.
    public let isEnabled: Bool
    /// Whether the browser has been asked to open the page, or the clipboard to take the code.
    public let isDone: Bool

    /// A step like this.
    public init(kind: Kind, texts: ChappieSignInTexts.Step, isEnabled: Bool = false, isDone: Bool = false) {
        (self.kind, self.texts, self.isEnabled, self.isDone) = (kind, texts, isEnabled, isDone)
    }

    /// The kind: each occurs once.
    public var id: Kind { kind }
}

/// A sentence about the desktop's part. None of these ends a sign-in.
public struct ChappieSignInNotice: Sendable, Hashable {
    /// A part of the desktop.
    public enum Part: Sendable, Hashable {
        /// Notifications.
        case notifications
        /// The clipboard.
        case clipboard
        /// The browser.
        case browser
    }

    /// Which part it is about.
    public let part: Part
    /// The sentence.
    public let sentence: String
    /// Whether it could not do what it was asked.
    public let isFailure: Bool

    /// A notice like this.
    public init(part: Part, sentence: String, isFailure: Bool) {
        (self.part, self.sentence, self.isFailure) = (part, sentence, isFailure)
    }
}

/// How a sign-in ended.
public struct ChappieSignInEnding: Sendable, Hashable {
    /// Each is a different thing for the user to do.
    public enum Reason: Sendable, Hashable, CaseIterable {
        /// The user is signed in.
        case linked
        /// The user, or the program, cancelled it.
        case cancelled
        /// The code was not approved in time.
        case expired
        /// The user, or the service, refused once the code was shown.
        case denied
        /// The service gives no device codes: device sign-in is switched off for the account.
        case switchedOff
        /// The network failed.
        case network
        /// The service answered with an error.
        case service
        /// There is no keyring to keep the credential in.
        case noKeyring
        /// The keyring is locked.
        case keyringLocked
        /// The credential store failed in another way.
        case store
        /// Anything else.
        case failed
    }

    /// What happened.
    public let reason: Reason
    /// What happened, as a sentence, and the user's next step.
    public let words: ChappieSignInTexts.Words
    /// What the session reported; `nil` when linked.
    public let error: ChappieAuthError?
    /// The credential store's part in it, if it is what failed.
    public let storeError: CredentialStoreError?

    /// An ending like this.
    public init(
        reason: Reason, words: ChappieSignInTexts.Words, error: ChappieAuthError? = nil,
        storeError: CredentialStoreError? = nil
    ) {
        (self.reason, self.words, self.error, self.storeError) = (reason, words, error, storeError)
    }
}

extension ChappieSignInEnding.Reason {
    /// - Parameter codeWasShown: a refusal before that is none of the user's.
    init(_ error: ChappieAuthError, _ storeError: CredentialStoreError?, codeWasShown: Bool) {
        switch (storeError, error) {
        case (.absent?, _), (nil, .credentialStoreUnavailable(.absent)): self = .noKeyring
        case (.locked?, _), (nil, .credentialStoreUnavailable(.locked)): self = .keyringLocked
        case (_?, _), (nil, .credentialStoreUnavailable): self = .store
        case (nil, .cancelledSignIn): self = .cancelled
        case (nil, .expiredDeviceCode), (nil, .pollingTimeout), (nil, .callbackTimeout): self = .expired
        case (nil, .authorizationDenied): self = codeWasShown ? .denied : .switchedOff
        case (nil, .networkFailure), (nil, .blockedByGateway): self = .network
        case (nil, .tokenExchangeFailed), (nil, .invalidResponse): self = .service
        case (nil, .reauthenticationRequired), (nil, .missingRefreshToken), (nil, .secureRandomFailed), (nil, .unknown):
            self = .failed
        }
    }
}

public import ChappieAuth

/// Everything that a user interface shows of a sign-in, in words. The user interface draws it and decides nothing.
public struct ChappieSignInState: Sendable, Hashable {
    /// The button's words.
    public var title: String
    /// Whether the button can be pressed. It can't while a sign-in runs.
    public var isEnabled = true
    /// Whether the button is hidden, because a user is signed in.
    public var isHidden = false
    /// Whether a sign-in runs.
    public var isInProgress = false
    /// Whether the sheet with the steps is shown. It stays for the sentence about a sign-in that failed.
    public var isSheetPresented = false
    /// The steps of the sheet, in order: three, or two without a code to enter.
    public var steps: [ChappieSignInStep] = []
    /// The page and its code, while they wait for approval. A page that needs no code has an empty one.
    public var deviceCode: ChappieDeviceCode?
    /// The time that the code is still valid, in whole seconds; `nil` if it is unknown.
    public var remaining: Duration?
    /// ``remaining`` as a sentence.
    public var countdown: String?
    /// The successes and failures of the desktop in this sign-in, at most one for each of its parts.
    public var notices: [ChappieSignInNotice] = []
    /// The end of the last sign-in, until the next sign-in begins or the user closes the sentence.
    public var ending: ChappieSignInEnding?

    /// A state for previews and tests; everything else has a default value.
    public init(title: String) { self.title = title }
}

/// A step of the user.
public struct ChappieSignInStep: Sendable, Hashable, Identifiable {
    /// The kinds of steps.
    public enum Kind: Sendable, Hashable, CaseIterable {
        /// The user opens the page; ``ChappieSignInModel/openPage()`` does it.
        case openPage
        /// The user confirms on the page.
        case continueWithChatGPT
        /// The user enters the code; ``ChappieSignInModel/copyCode()`` helps.
        case enterCode
    }

    /// The kind of the step.
    public let kind: Kind
    /// The words for the step.
    public let texts: ChappieSignInTexts.Step
    /// Whether the step's button can be pressed: there is a code, and a browser or a clipboard for it.
    public let isEnabled: Bool
    /// Whether the browser was asked to open the page, or the clipboard to take the code.
    public let isDone: Bool

    /// A step with the given properties.
    public init(kind: Kind, texts: ChappieSignInTexts.Step, isEnabled: Bool = false, isDone: Bool = false) {
        self.kind = kind
        self.texts = texts
        self.isEnabled = isEnabled
        self.isDone = isDone
    }

    /// The kind, because each kind occurs once.
    public var id: Kind { kind }
}

/// A sentence about a part of the desktop. It never ends a sign-in.
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

    /// The part of the desktop.
    public let part: Part
    /// The sentence.
    public let sentence: String
    /// Whether the part could not do its work.
    public let isFailure: Bool

    /// A notice with the given properties.
    public init(part: Part, sentence: String, isFailure: Bool) {
        self.part = part
        self.sentence = sentence
        self.isFailure = isFailure
    }
}

/// How a sign-in ended.
public struct ChappieSignInEnding: Sendable, Hashable {
    /// The reasons, each of which asks the user for a different next step.
    public enum Reason: Sendable, Hashable, CaseIterable {
        /// The user is signed in.
        case linked
        /// The user, or the program, cancelled the sign-in.
        case cancelled
        /// The code was not approved in time.
        case expired
        /// The user, or the service, refused after the code was shown.
        case denied
        /// The service gives no device codes, because device sign-in is switched off for the account.
        case switchedOff
        /// The network failed.
        case network
        /// The service answered with an error.
        case service
        /// The machine has no keyring for the credential.
        case noKeyring
        /// The keyring is locked.
        case keyringLocked
        /// The credential store failed in another way.
        case store
        /// Anything else.
        case failed
    }

    /// The reason of the ending.
    public let reason: Reason
    /// The reason as a sentence, and the user's next step.
    public let words: ChappieSignInTexts.Words
    /// The session's error; `nil` when linked.
    public let error: ChappieAuthError?
    /// The credential store's error, if the store failed.
    public let storeError: CredentialStoreError?

    /// An ending with the given properties.
    public init(
        reason: Reason, words: ChappieSignInTexts.Words, error: ChappieAuthError? = nil,
        storeError: CredentialStoreError? = nil
    ) {
        self.reason = reason
        self.words = words
        self.error = error
        self.storeError = storeError
    }
}

extension ChappieSignInEnding.Reason {
    /// - Parameter codeWasShown: whether the code was shown. Before that, a refusal can't be the user's.
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
        case (nil, _): self = .failed
        }
    }
}

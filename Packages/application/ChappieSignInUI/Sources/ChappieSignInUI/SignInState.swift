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
    /// Whether to offer a sign-in with a browser on this machine, without a code: ``ChappieSignInModel/signInWithBrowser()``
    /// with the words ``ChappieSignInTexts/browserHint`` and ``ChappieSignInTexts/useBrowser``.
    public var offersBrowser = false
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

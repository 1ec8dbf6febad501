public import ChappieAuth

/// All texts and values that a user interface shows of a sign-in. The user interface only displays them and makes no
/// decisions.
public struct ChappieSignInState: Sendable, Hashable {
    /// The title of the button.
    public var title: String
    /// Whether the button can be pressed. It can't be pressed while a sign-in is running.
    public var isEnabled = true
    /// Whether the button is hidden, because a user is signed in.
    public var isHidden = false
    /// Whether a sign-in is running.
    public var isInProgress = false
    /// Whether the sheet with the steps is shown. It stays to show the message about a sign-in that failed.
    public var isSheetPresented = false
    /// The consent page, while the sheet asks whether data may be sent to OpenAI. Nothing is sent before the user agrees
    /// with ``ChappieSignInModel/agree()``. While it is shown, the sheet shows nothing else but the button
    /// ``ChappieSignInTexts/cancel``.
    public var consent: ChappieSignInTexts.Consent?
    /// The steps of the sheet, in order. There are three, or two if there is no code to enter.
    public var steps: [ChappieSignInStep] = []
    /// The page and its code, while they wait for approval. The code is empty if the page needs none.
    public var deviceCode: ChappieDeviceCode?
    /// The time for which the code is still valid, in full seconds, or `nil` if it is unknown.
    public var remaining: Duration?
    /// ``remaining`` as a sentence.
    public var countdown: String?
    /// The successes and failures of the desktop in this sign-in, at most one for each of its parts.
    public var notices: [ChappieSignInNotice] = []
    /// Whether to offer a sign-in with a browser on this machine, without a code. The offer calls
    /// ``ChappieSignInModel/signInWithBrowser()`` and has the texts ``ChappieSignInTexts/browserHint`` and
    /// ``ChappieSignInTexts/useBrowser``.
    public var offersBrowser = false
    /// The end of the last sign-in, until the next sign-in begins or the user closes the message.
    public var ending: ChappieSignInEnding?

    /// Creates a state for previews and tests. All other properties have default values.
    public init(title: String) { self.title = title }
}

/// A step that the user takes.
public struct ChappieSignInStep: Sendable, Hashable, Identifiable {
    /// The kinds of steps.
    public enum Kind: Sendable, Hashable, CaseIterable {
        /// The user opens the page, or ``ChappieSignInModel/openPage()`` opens it.
        case openPage
        /// The user confirms on the page.
        case continueWithChatGPT
        /// The user enters the code, which ``ChappieSignInModel/copyCode()`` copies.
        case enterCode
    }

    /// The kind of the step.
    public let kind: Kind
    /// The texts of the step.
    public let texts: ChappieSignInTexts.Step
    /// Whether the step's button can be pressed, because there is a code and a browser or a clipboard for it.
    public let isEnabled: Bool
    /// Whether the browser was asked to open the page, or the clipboard was asked to store the code.
    public let isDone: Bool

    /// Creates a step with the given properties.
    public init(kind: Kind, texts: ChappieSignInTexts.Step, isEnabled: Bool = false, isDone: Bool = false) {
        self.kind = kind
        self.texts = texts
        self.isEnabled = isEnabled
        self.isDone = isDone
    }

    /// The kind, because each kind occurs once.
    public var id: Kind { kind }
}

/// A memory of the slots whose users have agreed that data is sent to OpenAI. It contains no secret.
/// A custom user interface passes one to its ``ChappieSignInModel``. `CredentialSlot` is in the module ChappieAuth.
///
/// ```swift
/// final class Consents: ChappieConsentStore {
///     private let slots = Mutex<Set<CredentialSlot>>([])
///     func hasConsent(for slot: CredentialSlot) -> Bool { slots.withLock { $0.contains(slot) } }
///     func addConsent(for slot: CredentialSlot) { _ = slots.withLock { $0.insert(slot) } }
/// }
/// ```
public protocol ChappieConsentStore: Sendable {
    /// Returns whether the user of `slot` has agreed.
    func hasConsent(for slot: CredentialSlot) -> Bool

    /// Remembers that the user of `slot` has agreed. A sign-out does not forget it.
    func addConsent(for slot: CredentialSlot)
}

@_spi(ChappieInternals) public import ChappieAuth
public import ChappieCore

/// The texts of a sign-in. The defaults are English. Replace them with your translations.
///
/// ```swift
/// var texts = ChappieSignInTexts()
/// texts.signIn = "Mit ChatGPT anmelden"
/// texts.endings[.expired] = .init("Der Code ist abgelaufen.", "Fordere einen neuen an.")
/// ```
public struct ChappieSignInTexts: Sendable, Hashable {
    /// The title of the button before a sign-in, and after a failed sign-in.
    public var signIn = "Sign in with ChatGPT"
    /// The title of the button while the session asks for a code.
    public var preparing = "Preparing sign in"
    /// The title of the button while the code waits for approval.
    public var openSignIn = "Open ChatGPT sign in"

    /// The page that asks whether data may be sent to OpenAI, or `nil` if the app asks by itself. It is shown only if
    /// the model has a ``ChappieConsentStore``, as the SwiftUI view has.
    public var consent: Consent? = Consent()

    /// The first step.
    public var openPage = Step("Open OpenAI", "Open the sign-in page in your browser.", button: "Open OpenAI")
    /// The second step.
    public var continueWithChatGPT = Step("Continue with ChatGPT", "Choose Continue when the page asks you to.")
    /// The third step.
    public var enterCode = Step("Paste your device code", "Enter this code on the page.", button: "Copy")

    /// The text that explains when to choose a browser on this machine instead of a device code.
    public var browserHint =
        "If the page does not allow device codes, your workspace's administrator can switch them on. Or sign in without a "
        + "code, with a browser on this machine."
    /// The title of the button that uses a browser on this machine.
    public var useBrowser = "Sign in without a code"

    /// The title of the button that ends a running sign-in, or closes a message.
    public var cancel = "Cancel"
    /// The title of the button that starts again after a failed sign-in.
    public var tryAgain = "Try again"
    /// The text that is shown while the code waits. `{time}` stands for minutes and seconds.
    public var waiting = "Waiting for approval: {time} left"

    /// The text that is shown when the clipboard has the code.
    public var codeCopied = "The code is in your clipboard."
    /// The text that is shown when the clipboard may have the code.
    public var copyRequested =
        "The terminal was asked to copy the code; if pasting gives something else, type it."
    /// The text that is shown when a browser was asked to open the page.
    public var pageOpened = "A browser was asked to open the page."
    /// The text that describes a finished step to a user who can't see its mark.
    public var done = "Done"
    /// The messages for parts of the desktop that could not do their work. For a part that is missing here, the message
    /// is the adapter's own English message, which names the reason.
    public var failures: [ChappieSignInNotice.Part: String] = [:]

    /// The texts for the endings. For a reason that is missing here, the texts are the error's own English texts. The
    /// notification has the texts of `linked`.
    public var endings: [ChappieSignInEnding.Reason: Words] = [.linked: Words("ChatGPT Linked!", "Return to the app")]

    /// The texts for the first sign-in after which the user's plan pays. The notification also has them.
    public var usesPlan = Words("You're using your ChatGPT plan", "Manage usage in ChatGPT's settings.")
    /// The texts for a sign-in that does not allow the use of the plan.
    public var planNotAllowed = Words(
        "You are signed in, but this app may not use your ChatGPT plan.", "Sign in once more and allow plan use.")
    /// The text that is shown near the program's input while the user's plan pays.
    public var usingPlan = "Using ChatGPT plan"
    /// The title of the link next to ``usingPlan``, which opens the page for managing the usage.
    public var manageUsage = "Manage usage"

    /// Creates the English texts.
    public init() {}

    /// Creates the English texts for the session's kind of sign-in.
    @MainActor
    public init(for session: ChappieAuthSession) {
        guard case .continueWithChatGPT = session.configuredGrant else { return }
        self = .continueInBrowser
    }

    /// The English texts for "Continue with ChatGPT". The browser returns by itself, without a code.
    public static let continueInBrowser: ChappieSignInTexts = {
        var texts = ChappieSignInTexts()
        texts.signIn = "Continue with ChatGPT"
        texts.openSignIn = "Continue in your browser"
        texts.openPage = Step(
            "Open ChatGPT", "Open the sign-in page in a browser on this machine.", button: "Open ChatGPT")
        texts.continueWithChatGPT = Step(
            "Continue with ChatGPT", "Allow the use of your plan. The browser comes back by itself.")
        return texts
    }()

    /// The texts of a step.
    public struct Step: Sendable, Hashable {
        /// The title, a few words.
        public var title: String
        /// The user's task, as a sentence.
        public var detail: String
        /// The title of the button that carries out the step, or `nil` if the user carries it out.
        public var button: String?

        /// Creates a step with these texts.
        public init(_ title: String, _ detail: String, button: String? = nil) {
            self.title = title
            self.detail = detail
            self.button = button
        }
    }

    /// The texts of the page that asks whether data may be sent to OpenAI. They describe an app that sends what the SDK
    /// sends. Replace them if your app sends other data, or sends data to others.
    public struct Consent: Sendable, Hashable {
        /// The question, as a title.
        public var title = "Share data with OpenAI?"
        /// The receiver, the data and the way, a paragraph each.
        public var paragraphs = [
            "This app uses ChatGPT, an AI service of OpenAI. OpenAI is a third party.",
            "When you ask something, this app sends to OpenAI: your messages, the files and pictures that you attach, the "
                + "earlier messages of the conversation, this app's instructions, and what this app's tools return. "
                + "These can contain personal data.",
            "It is sent from this device directly to OpenAI, under your own ChatGPT account. OpenAI tells this app "
                + "the account's email address, identifiers and plan.",
            "You can stop this at any time: sign out.",
        ]
        /// The title of the link to ``policyURL``.
        public var policy = "OpenAI's privacy policy"
        /// The address of the privacy policy, or `nil` for no link.
        public var policyURL = URL(string: "https://openai.com/policies/privacy-policy/")
        /// The title of the button with which the user agrees.
        public var agree = "Agree and continue"

        /// Creates the English texts.
        public init() {}
    }

    /// The texts for an ending.
    public struct Words: Sendable, Hashable {
        /// The ending, as a sentence.
        public var sentence: String
        /// The user's next step.
        public var advice: String

        /// Creates texts with this message and advice.
        public init(_ sentence: String, _ advice: String) {
            self.sentence = sentence
            self.advice = advice
        }
    }

    func words(for reason: ChappieSignInEnding.Reason, _ error: (any Error)?) -> Words {
        if let words = endings[reason] { return words }
        let error = error as? any LocalizedError
        // The sentence already explains how to switch it on.
        let advice = reason == .switchedOff ? "Try again once it is switched on." : error?.recoverySuggestion
        return Words(error?.errorDescription ?? "Signing in failed.", advice ?? "Try again.")
    }

    func waiting(_ remaining: Duration) -> String {
        let seconds = remaining.components.seconds
        return waiting.replacing("{time}", with: "\(seconds / 60):\(seconds % 60 < 10 ? "0" : "")\(seconds % 60)")
    }
}

/// A message about a part of the desktop. It never ends a sign-in.
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
    /// The message, as a sentence.
    public let sentence: String
    /// Whether the part could not do its work.
    public let isFailure: Bool

    /// Creates a notice with the given properties.
    public init(part: Part, sentence: String, isFailure: Bool) {
        self.part = part
        self.sentence = sentence
        self.isFailure = isFailure
    }
}

/// The end of a sign-in.
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
        /// The service issues no device codes, because device sign-in is switched off for the account.
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
        /// The sign-in failed for any other reason.
        case failed
    }

    /// The reason of the ending.
    public let reason: Reason
    /// The reason as a sentence, and the user's next step.
    public let words: ChappieSignInTexts.Words
    /// The session's error, or `nil` when linked.
    public let error: ChappieAuthError?
    /// The credential store's error, if the store failed.
    public let storeError: CredentialStoreError?

    /// Creates an ending with the given properties.
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
    /// Creates the reason for a failed sign-in.
    ///
    /// - Parameter codeWasShown: Whether the code was shown. Before that, the user can't have refused.
    init(_ error: ChappieAuthError, _ storeError: CredentialStoreError?, codeWasShown: Bool) {
        switch (storeError, error) {
        case (.absent?, _), (nil, .credentialStoreUnavailable(.absent)): self = .noKeyring
        case (.locked?, _), (nil, .credentialStoreUnavailable(.locked)): self = .keyringLocked
        case (_?, _), (nil, .credentialStoreUnavailable): self = .store
        case (nil, .cancelledSignIn): self = .cancelled
        case (nil, .expiredDeviceCode), (nil, .pollingTimeout), (nil, .callbackTimeout): self = .expired
        case (nil, .authorizationDenied): self = codeWasShown ? .denied : .switchedOff
        case (nil, let error) where error.obstacle == .deviceCodes: self = codeWasShown ? .denied : .switchedOff
        case (nil, .networkFailure), (nil, .blockedByGateway): self = .network
        case (nil, .tokenExchangeFailed), (nil, .tooManyRequests), (nil, .invalidResponse): self = .service
        case (nil, _): self = .failed
        }
    }
}

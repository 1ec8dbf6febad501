@_spi(ChappieInternals) public import ChappieAuth
import ChappieCore

/// The words of a sign-in. The defaults are English; replace them with your translations.
///
/// ```swift
/// var texts = ChappieSignInTexts()
/// texts.signIn = "Mit ChatGPT anmelden"
/// texts.endings[.expired] = .init("Der Code ist abgelaufen.", "Fordere einen neuen an.")
/// ```
public struct ChappieSignInTexts: Sendable, Hashable {
    /// The button before a sign-in, and after a failed sign-in.
    public var signIn = "Sign in with ChatGPT"
    /// The button while the session asks for a code.
    public var preparing = "Preparing sign in"
    /// The button while the code waits for approval.
    public var openSignIn = "Open ChatGPT sign in"

    /// The first step.
    public var openPage = Step("Open OpenAI", "Open the sign-in page in your browser.", button: "Open OpenAI")
    /// The second step.
    public var continueWithChatGPT = Step("Continue with ChatGPT", "Choose Continue when the page asks you to.")
    /// The third step.
    public var enterCode = Step("Paste your device code", "Enter this code on the page.", button: "Copy")

    /// Ends a running sign-in, or closes a sentence.
    public var cancel = "Cancel"
    /// Starts again after a failed sign-in.
    public var tryAgain = "Try again"
    /// Shown while the code waits; `{time}` stands for minutes and seconds.
    public var waiting = "Waiting for approval: {time} left"

    /// The clipboard has the code.
    public var codeCopied = "The code is in your clipboard."
    /// The clipboard may have the code.
    public var copyRequested =
        "The terminal was asked to copy the code; if pasting gives something else, type it."
    /// The browser has the page.
    public var pageOpened = "A browser was asked to open the page."
    /// Describes a finished step to a user who can't see its mark.
    public var done = "Done"
    /// Sentences for a part of the desktop that could not do its work. For a part that is missing here, the sentence is
    /// the adapter's own in English, which names the reason.
    public var failures: [ChappieSignInNotice.Part: String] = [:]

    /// The words for the endings. For a reason that is missing here, the words are the error's own in English. The
    /// notification has the words of `linked`.
    public var endings: [ChappieSignInEnding.Reason: Words] = [.linked: Words("ChatGPT Linked!", "Return to the app")]

    /// The words for the first sign-in after which the user's plan pays. The notification has them too.
    public var usesPlan = Words("You're using your ChatGPT plan", "Manage usage in ChatGPT's settings.")
    /// The words for a sign-in that does not allow the use of the plan.
    public var planNotAllowed = Words(
        "You are signed in, but this app may not use your ChatGPT plan.", "Sign in once more and allow plan use.")
    /// Shown near the program's input while the user's plan pays.
    public var usingPlan = "Using ChatGPT plan"
    /// The title of the link beside ``usingPlan``, which opens the page that manages the usage.
    public var manageUsage = "Manage usage"

    /// The English texts.
    public init() {}

    /// The English texts for the session's kind of sign-in.
    @MainActor
    public init(for session: ChappieAuthSession) {
        guard case .continueWithChatGPT = session.configuredGrant else { return }
        self = .continueInBrowser
    }

    /// The English texts for "Continue with ChatGPT": the browser comes back by itself, without a code.
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

    /// The words for a step.
    public struct Step: Sendable, Hashable {
        /// A few words.
        public var title: String
        /// The user's task, as a sentence.
        public var detail: String
        /// The title of the button that does it; `nil` if the user does it.
        public var button: String?

        /// A step with these words.
        public init(_ title: String, _ detail: String, button: String? = nil) {
            self.title = title
            self.detail = detail
            self.button = button
        }
    }

    /// The words for an ending.
    public struct Words: Sendable, Hashable {
        /// The ending, as a sentence.
        public var sentence: String
        /// The user's next step.
        public var advice: String

        /// These words.
        public init(_ sentence: String, _ advice: String) {
            self.sentence = sentence
            self.advice = advice
        }
    }

    func words(for reason: ChappieSignInEnding.Reason, _ error: (any Error)?) -> Words {
        if let words = endings[reason] { return words }
        let error = error as? any LocalizedError
        // The sentence already says how to switch it on.
        let advice = reason == .switchedOff ? "Try again once it is switched on." : error?.recoverySuggestion
        return Words(error?.errorDescription ?? "Signing in failed.", advice ?? "Try again.")
    }

    func waiting(_ remaining: Duration) -> String {
        let seconds = remaining.components.seconds
        return waiting.replacing("{time}", with: "\(seconds / 60):\(seconds % 60 < 10 ? "0" : "")\(seconds % 60)")
    }
}

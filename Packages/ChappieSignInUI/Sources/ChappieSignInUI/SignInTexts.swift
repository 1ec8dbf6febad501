import ChappieAuth
import ChappieCore

/// The words of a sign-in. The defaults are English; replace those that you translate.
///
/// ```swift
/// var texts = ChappieSignInTexts()
/// texts.signIn = "Mit ChatGPT anmelden"
/// texts.endings[.expired] = .init("Der Code ist abgelaufen.", "Fordere einen neuen an.")
/// ```
public struct ChappieSignInTexts: Sendable, Hashable {
    /// The button before a sign-in, and after one that failed.
    public var signIn = "Sign in with ChatGPT"
    /// The button while a code is asked for.
    public var preparing = "Preparing sign in"
    /// The button while the code waits for approval.
    public var openSignIn = "Open ChatGPT sign in"

    /// The first step.
    public var openPage = Step("Open OpenAI", "Open the sign-in page in your browser.", button: "Open OpenAI")
    /// The second step.
    public var continueWithChatGPT = Step("Continue with ChatGPT", "Choose Continue when the page asks you to.")
    /// The third step.
    public var enterCode = Step("Paste your device code", "Enter this code on the page.", button: "Copy")

    /// Ends a sign-in that is running, and puts a sentence away.
    public var cancel = "Cancel"
    /// Starts again after a sign-in that failed.
    public var tryAgain = "Try again"
    /// While the code waits; `{time}` stands for minutes and seconds.
    public var waiting = "Waiting for approval: {time} left"

    /// The clipboard has the code.
    public var codeCopied = "The code is in your clipboard."
    /// The clipboard may have the code.
    public var copyRequested =
        "The terminal was asked to copy the code; if pasting gives something else, type it."
    /// The browser has the page.
    public var pageOpened = "A browser was asked to open the page."
    /// Said of a step that has been done, to a user who can't see its mark.
    public var done = "Done"
    /// Sentences for a part of the desktop that could not do its work. A part that is missing here is told in its adapter's
    /// own English words, which know the reason.
    public var failures: [ChappieSignInNotice.Part: String] = [:]

    /// How sign-ins end. A reason that is missing here is told in the error's own English words. The notification is made
    /// of the words of `linked`.
    public var endings: [ChappieSignInEnding.Reason: Words] = [.linked: Words("ChatGPT Linked!", "Return to the app")]

    /// The English texts.
    public init() {}

    /// One of the three steps.
    public struct Step: Sendable, Hashable {
        /// A few words.
        public var title: String
        /// What to do, as a sentence.
        public var detail: String
        /// What does it for the user; `nil` where the user does it.
        public var button: String?

        /// A step with these words.
        public init(_ title: String, _ detail: String, button: String? = nil) {
            (self.title, self.detail, self.button) = (title, detail, button)
        }
    }

    /// The words for an ending.
    public struct Words: Sendable, Hashable {
        /// What happened.
        public var sentence: String
        /// The user's next step.
        public var advice: String

        /// These words.
        public init(_ sentence: String, _ advice: String) { (self.sentence, self.advice) = (sentence, advice) }
    }

    func words(for reason: ChappieSignInEnding.Reason, _ error: (any Error)?) -> Words {
        if let words = endings[reason] { return words }
        let error = error as? any LocalizedError
        // The sentence says already where to switch it on.
        let advice = reason == .switchedOff ? "Try again once it is switched on." : error?.recoverySuggestion
        return Words(error?.errorDescription ?? "Signing in failed.", advice ?? "Try again.")
    }

    func waiting(_ remaining: Duration) -> String {
        let seconds = remaining.components.seconds
        return waiting.replacing("{time}", with: "\(seconds / 60):\(seconds % 60 < 10 ? "0" : "")\(seconds % 60)")
    }
}

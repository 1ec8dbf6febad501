#if canImport(SwiftUI)
    import Accessibility
    import ChappieAuth
    import ChappieCore
    import SwiftUI

    /// The sheet of ``ChappieSignIn``. It first asks whether data may be sent to OpenAI, unless the user has agreed
    /// before. Then it shows the steps while the sign-in waits, and a message if the sign-in has failed.
    ///
    /// It scrolls, so that the largest text sizes have room. Colours are semantic, and fonts are text styles. The sheet
    /// sets its own styles, because it inherits the app's styles for the button. Each text has its own colour, because
    /// a common colour would also change the labels of the buttons.
    struct SignInSheet: View {
        @ObservedObject var model: ChappieSignInModel
        let texts: ChappieSignInTexts
        @State private var lastPresented: ChappieSignInState?

        var body: some View {
            ScrollView {
                VStack(alignment: .leading, spacing: 24) {
                    Text(state.consent?.title ?? texts.signIn)
                        .font(.title2)
                        .bold()
                        .foregroundStyle(Color.primary)
                        .accessibilityAddTraits(.isHeader)
                    if let consent = state.consent {
                        ConsentPage(consent: consent) { model.agree() }
                    } else if let ending = state.ending {
                        Ending(ending: ending, tryAgain: texts.tryAgain) { model.signIn() }
                    } else {
                        steps
                    }
                    if state.offersBrowser {
                        Text(texts.browserHint).font(.footnote).foregroundStyle(Color.secondary)
                        Button(texts.useBrowser) { model.signInWithBrowser() }
                            .buttonStyle(.bordered)
                    }
                    Button(texts.cancel, role: .cancel) { model.cancel() }
                        .buttonStyle(.bordered)
                        .keyboardShortcut(.cancelAction)
                }
                .padding(24)
                .frame(maxWidth: .infinity, alignment: .leading)
            }
            // A Mac makes a sheet as large as its content requests, and a scroll view by itself requests no size.
            .frame(minWidth: 280, idealWidth: 420, minHeight: 280, idealHeight: 520)
            .font(.body)
            .fontWeight(nil)
            .textCase(nil)
            .lineLimit(nil)
            .multilineTextAlignment(.leading)
            // A program may disable the button's surroundings while a sign-in is running, but the user must still be
            // able to cancel.
            .environment(\.isEnabled, true)
            .onChange(of: model.state, initial: true) {
                if model.state.isSheetPresented { lastPresented = model.state }
            }
            .onChange(of: state.ending) {
                if let words = state.ending?.words {
                    AccessibilityNotification.Announcement(words.sentence + " " + words.advice).post()
                }
            }
            .onChange(of: state.deviceCode, initial: true) {
                if let code = state.deviceCode?.userCode, !code.isEmpty {
                    // With spaces, a screen reader reads the characters one by one.
                    let spelled = code.map(String.init).joined(separator: " ")
                    AccessibilityNotification.Announcement(texts.enterCode.title + ": " + spelled).post()
                }
            }
        }

        /// The state to show. While the sheet slides away, this is its last state.
        private var state: ChappieSignInState {
            model.state.isSheetPresented ? model.state : lastPresented ?? model.state
        }

        @ViewBuilder private var steps: some View {
            ForEach(Array(state.steps.enumerated()), id: \.element.id) { index, step in
                HStack(alignment: .firstTextBaseline, spacing: 12) {
                    Image(systemName: step.isDone ? "checkmark.circle.fill" : "\(index + 1).circle")
                        .foregroundStyle(.tint)
                        .accessibilityHidden(true)
                    VStack(alignment: .leading, spacing: 8) {
                        VStack(alignment: .leading, spacing: 2) {
                            Text(step.texts.title).font(.headline).foregroundStyle(Color.primary)
                            Text(step.texts.detail).foregroundStyle(Color.secondary)
                        }
                        .accessibilityElement(children: .combine)
                        .accessibilityValue(Text(step.isDone ? texts.done : ""))
                        control(of: step)
                    }
                }
            }
            if let countdown = state.countdown {
                Text(countdown)
                    .font(.footnote)
                    .monospacedDigit()
                    .foregroundStyle(Color.secondary)
                    .accessibilityAddTraits(.updatesFrequently)
            }
            ForEach(state.notices, id: \.part) { notice in
                Label(notice.sentence, systemImage: notice.isFailure ? "exclamationmark.triangle" : "info.circle")
                    .labelStyle(.titleAndIcon)
                    .font(.footnote)
                    .foregroundStyle(Color.secondary)
            }
        }

        @ViewBuilder private func control(of step: ChappieSignInStep) -> some View {
            switch step.kind {
            case .openPage:
                Button(step.texts.button ?? step.texts.title) { model.openPage() }
                    .buttonStyle(.borderedProminent)
                    .disabled(!step.isEnabled)
                if let code = state.deviceCode {
                    // The address is for another device, and for a system without a browser.
                    Text(code.verificationURL.absoluteString)
                        .font(.footnote)
                        .foregroundStyle(Color.secondary)
                        .textSelection(.enabled)
                }
            case .continueWithChatGPT: EmptyView()
            case .enterCode:
                if let code = state.deviceCode {
                    CodeChip(code: code.userCode, step: step) { model.copyCode() }
                } else if state.isInProgress {
                    ProgressView(state.title)
                }
            }
        }
    }

    /// A page that names the receiver and the data, and asks the user to agree. The button is not the default one, so
    /// that the key that opened the sheet can't agree.
    private struct ConsentPage: View {
        let consent: ChappieSignInTexts.Consent
        let agree: @MainActor () -> Void

        var body: some View {
            ForEach(consent.paragraphs, id: \.self) { paragraph in
                Text(paragraph).foregroundStyle(Color.primary)
            }
            if let url = consent.policyURL {
                Link(consent.policy, destination: url)
                    .buttonStyle(.bordered)
            }
            Button(consent.agree, action: agree)
                .buttonStyle(.borderedProminent)
        }
    }

    /// A button with the code. A tap copies the code.
    private struct CodeChip: View {
        let code: String
        let step: ChappieSignInStep
        let copy: @MainActor () -> Void

        var body: some View {
            Button(action: copy) {
                Label(code, systemImage: step.isDone ? "checkmark" : "doc.on.doc")
                    .labelStyle(.titleAndIcon)
                    .font(.title3)
                    .monospaced()
                    // On two lines it would look like two codes.
                    .lineLimit(1)
                    .minimumScaleFactor(0.5)
            }
            .buttonStyle(.bordered)
            .buttonBorderShape(.capsule)
            .disabled(!step.isEnabled)
            // A screen reader spells the code, because a user can't enter a code that is read as a word.
            .accessibilityLabel(Text(code).speechSpellsOutCharacters())
            .accessibilityHint(Text(step.texts.button ?? step.texts.title))
        }
    }

    /// A view with the message about the ending, and the next step.
    private struct Ending: View {
        let ending: ChappieSignInEnding
        let tryAgain: String
        let signIn: @MainActor () -> Void

        var body: some View {
            VStack(alignment: .leading, spacing: 8) {
                Text(ending.words.sentence).font(.headline).foregroundStyle(Color.primary)
                Text(ending.words.advice).foregroundStyle(Color.secondary)
            }
            .accessibilityElement(children: .combine)
            Button(tryAgain, action: signIn)
                .buttonStyle(.borderedProminent)
                .keyboardShortcut(.defaultAction)
        }
    }
#endif

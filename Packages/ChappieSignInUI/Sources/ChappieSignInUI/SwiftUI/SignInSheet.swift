#if canImport(SwiftUI) && canImport(Accessibility)
    import Accessibility
    import ChappieAuth
    import ChappieCore
    import SwiftUI

    /// The sheet of ``ChappieSignIn``: three steps while the code waits, one sentence when the sign-in has failed.
    ///
    /// It scrolls, so that the largest text sizes have room; colours are semantic, fonts are text styles. Styles are set here,
    /// since a sheet inherits those that the app gave the button.
    struct SignInSheet: View {
        @ObservedObject var model: ChappieSignInModel
        let texts: ChappieSignInTexts

        var body: some View {
            ScrollView {
                VStack(alignment: .leading, spacing: 24) {
                    Text(texts.signIn)
                        .font(.title2)
                        .bold()
                        .accessibilityAddTraits(.isHeader)
                    if let ending {
                        Ending(ending: ending, tryAgain: texts.tryAgain) { model.signIn() }
                    } else {
                        steps
                    }
                    Button(texts.cancel, role: .cancel) { model.cancel() }
                        .buttonStyle(.bordered)
                        .keyboardShortcut(.cancelAction)
                }
                .padding(24)
                .frame(maxWidth: .infinity, alignment: .leading)
            }
            // A Mac makes a sheet as large as its content asks for, and a scroll view alone asks for nothing.
            .frame(minWidth: 280, idealWidth: 420, minHeight: 280, idealHeight: 520)
            .font(.body)
            .multilineTextAlignment(.leading)
            // A program may disable the button's surroundings while a sign-in runs; the way out stays open.
            .environment(\.isEnabled, true)
            .onChange(of: ending) {
                if let words = ending?.words {
                    AccessibilityNotification.Announcement(words.sentence + " " + words.advice).post()
                }
            }
        }

        /// Not what a sheet would show for a moment while it goes: that the user has cancelled, or is signed in.
        private var ending: ChappieSignInEnding? { model.state.isSheetPresented ? model.state.ending : nil }

        @ViewBuilder private var steps: some View {
            ForEach(Array(model.state.steps.enumerated()), id: \.element.id) { index, step in
                HStack(alignment: .firstTextBaseline, spacing: 12) {
                    Image(systemName: step.isDone ? "checkmark.circle.fill" : "\(index + 1).circle")
                        .foregroundStyle(.tint)
                        .accessibilityHidden(true)
                    VStack(alignment: .leading, spacing: 8) {
                        VStack(alignment: .leading, spacing: 2) {
                            Text(step.texts.title).font(.headline)
                            Text(step.texts.detail).foregroundStyle(.secondary)
                        }
                        .accessibilityElement(children: .combine)
                        control(of: step)
                    }
                }
            }
            if let countdown = model.state.countdown {
                Text(countdown)
                    .font(.footnote)
                    .monospacedDigit()
                    .foregroundStyle(.secondary)
                    .accessibilityAddTraits(.updatesFrequently)
            }
            ForEach(model.state.notices, id: \.part) { notice in
                Label(notice.sentence, systemImage: notice.isFailure ? "exclamationmark.triangle" : "info.circle")
                    .labelStyle(.titleAndIcon)
                    .font(.footnote)
                    .foregroundStyle(.secondary)
            }
        }

        @ViewBuilder private func control(of step: ChappieSignInStep) -> some View {
            switch step.kind {
            case .openPage:
                Button(step.texts.button ?? step.texts.title) { model.openPage() }
                    .buttonStyle(.borderedProminent)
                    .disabled(!step.isEnabled)
                if let code = model.state.deviceCode {
                    // For another device, and for a system that has no browser to open.
                    Text(code.verificationURL.absoluteString)
                        .font(.footnote)
                        .foregroundStyle(.secondary)
                        .textSelection(.enabled)
                }
            case .continueWithChatGPT: EmptyView()
            case .enterCode:
                if let code = model.state.deviceCode {
                    CodeChip(code: code.userCode, step: step) { model.copyCode() }
                } else if model.state.isInProgress {
                    ProgressView(model.state.title)
                }
            }
        }
    }

    /// The code; a tap copies it.
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
                    // In two lines it would look like two codes.
                    .lineLimit(1)
                    .minimumScaleFactor(0.5)
            }
            .buttonStyle(.bordered)
            .buttonBorderShape(.capsule)
            .disabled(!step.isEnabled)
            // Letters and digits one by one: a code that is read as a word can't be entered.
            .accessibilityLabel(Text(code).speechSpellsOutCharacters())
            .accessibilityHint(Text(step.texts.button ?? step.texts.title))
        }
    }

    /// What went wrong, and what to do next.
    private struct Ending: View {
        let ending: ChappieSignInEnding
        let tryAgain: String
        let signIn: @MainActor () -> Void

        var body: some View {
            VStack(alignment: .leading, spacing: 8) {
                Text(ending.words.sentence).font(.headline)
                Text(ending.words.advice).foregroundStyle(.secondary)
            }
            .accessibilityElement(children: .combine)
            Button(tryAgain, action: signIn)
                .buttonStyle(.borderedProminent)
                .keyboardShortcut(.defaultAction)
        }
    }
#endif

// A face of one's own for the sign-in: the model decides, this program shows, and what the desktop does is its own too.
import ChappieAuth
import ChappieSDK
import ChappieSignInUI
import Foundation
import Playground

struct Desk: Browser, Clipboard, Notifier {
    func open(_ url: URL) throws(DesktopError) { print("opening \(url)") }
    func copy(_ text: String) throws(DesktopError) -> ClipboardOutcome { throw DesktopError("It has no clipboard.") }
    func notify(title: String, body: String) throws(DesktopError) { print("[\(title) \(body)]") }
}

let configuration = ChappieConfiguration(keychainService: "com.example.face", endpoints: endpoints)
let desk = Desk()
let model = ChappieSignInModel(
    session: await Chappie.loadedAuthSession(configuration: configuration, store: store), showsOnboardingSheet: false,
    browser: desk, clipboard: desk, notifier: desk, onDeviceCode: { print("Your code: \($0.userCode)") })
model.signIn()
var title = ""
for await state in model.stateUpdates {
    if state.title != title { print("(\(state.title))") }
    title = state.title
    if let ending = state.ending {
        print(ending.words.sentence, ending.words.advice)
        break
    }
}
await model.settle()
for notice in model.state.notices { print("- \(notice.sentence)") }

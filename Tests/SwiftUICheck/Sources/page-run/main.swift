// Opens the page of "Continue with ChatGPT" as the button does on a phone, and ends it as the first argument says: the user
// closes it (`close`), the browser returns to the app (`return`), or the app cancels the sign-in (`cancel`). CHAPPIE_ISSUER names a
// simulator.
import AuthenticationServices
import ChappieSDK
import Foundation
import FoundationNetworking
import UIKit

@testable import ChappieSignInUI

guard CommandLine.arguments.count > 1,
    let port = ProcessInfo.processInfo.environment["CHAPPIE_ISSUER"].flatMap(URL.init(string:))?.port
else { fatalError("page-run close|return|cancel, with CHAPPIE_ISSUER") }
let session = Chappie.authSession(
    configuration: ChappieConfiguration(
        keychainService: "com.example.page",
        endpoints: .simulator(port: port, grant: .continueWithChatGPT(appName: "Page"))))
let code = try await session.startDeviceCodeSignIn()

do {
    _ = try InAppPage.show(code, of: session, over: nil)
} catch {
    print(error.sentence)
}
weak var page = try InAppPage.show(code, of: session, over: UIWindow())
guard let browser = ASWebAuthenticationSession.shown, page != nil else { fatalError("The page is not shown.") }
print(browser.url)

switch CommandLine.arguments[1] {
case "close": browser.complete(nil, CancellationError())
case "return": _ = try await URLSession.shared.data(from: browser.url)
default: session.cancelSignIn()
}
while ASWebAuthenticationSession.shown != nil || page != nil { await Task.yield() }
print(session.deviceLinkState)

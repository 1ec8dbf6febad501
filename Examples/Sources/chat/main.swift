// A chat: signs in where nobody is, then streams an answer to every line.
import ChappieSDK
import Foundation
import Playground

let configuration = ChappieConfiguration(
    keychainService: "com.example.chat", harness: "You are a friend who answers briefly.",
    automaticCompaction: 0.8, endpoints: endpoints)
let session = await Chappie.loadedAuthSession(configuration: configuration, store: store)

do {
    if !session.state.isSignedIn {
        let account = try await session.signIn { code in
            print("Enter \(code.userCode) at \(code.verificationURL)")
        }
        print("Signed in as \(account.email ?? "you").")
    }
    let client = Chappie.client(configuration: configuration, store: store)
    while let line = readLine(), line != "/quit" {
        do {
            for try await text in client.stream(line).text {
                print(text, terminator: "")
                fflush(nil)
            }
            print()
        } catch let error as any ChappieError {
            // The conversation is as it was before the line: try another one.
            print(error.explanation)
        }
    }
    await client.disconnect()
} catch let error as any ChappieError {
    print(error.explanation)
}
// A token that is being renewed just now is stored before the program ends.
await session.finishPendingWork()

// A store of one's own for conversations. The second client goes on where the first one ended, as another process would.
import ChappieRuntime
import ChappieSDK
import Playground

let configuration = ChappieConfiguration(keychainService: "com.example.threads", endpoints: endpoints)
let session = await Chappie.loadedAuthSession(configuration: configuration, store: store)
if !session.state.isSignedIn {
    _ = try await session.signIn { code in print("Enter \(code.userCode) at \(code.verificationURL)") }
}

let table = Table()
let first = Chappie.client(configuration: configuration, store: store).runtime(store: table)
print(try await first.send("reply: the first answer"))

let second = Chappie.client(configuration: configuration, store: store).runtime(store: table)
for thread in try await second.listThreads() {
    try await second.openThread(thread.id)
    print(try await second.send("reply: the second answer"))
    for turn in await second.currentThread?.turns ?? [] { print("\(turn.number). \(turn.outputText)") }
}

import ChappieSDK
import ChappieSDKRuntime
import ChatModel
import SwiftUI

/// The open chat, with the other chats in a menu.
struct ChatView: View {
    @ObservedObject var session: ChappieAuthSession
    @Bindable var model: ChatModel

    var body: some View {
        NavigationStack {
            VStack(spacing: 0) {
                ScrollView {
                    LazyVStack(alignment: .leading, spacing: 16) {
                        ForEach(model.messages) { MessageView(message: $0) }
                    }
                    .padding()
                }
                .defaultScrollAnchor(.bottom)
                problem
                input
            }
            .navigationTitle("Chat")
            .toolbar { menu }
        }
        .task { await model.load() }
    }

    @ViewBuilder private var problem: some View {
        if let problem = model.problem {
            HStack {
                Text(problem).font(.footnote)
                if let page = model.usagePage {
                    Link("Manage usage", destination: page)
                }
            }
            .padding()
        }
    }

    private var input: some View {
        HStack {
            TextField("Message", text: $model.draft, axis: .vertical)
                .onSubmit { model.send() }
            if model.isAnswering {
                Button("Stop") { Task { await model.stop() } }
            } else {
                Button("Send") { model.send() }
                    .disabled(model.draft.isEmpty)
            }
        }
        .padding()
    }

    private var menu: some View {
        Menu("Chats") {
            Button("New chat") { Task { await model.begin() } }
                .disabled(model.isAnswering)
            ForEach(model.chats) { chat in
                Button(chat.title ?? chat.preview) { Task { await model.open(chat.id) } }
                    .disabled(model.isAnswering)
            }
            Button("Sign out", role: .destructive) { Task { await signOut() } }
        }
    }

    private func signOut() async {
        await model.close()
        session.signOut()
    }
}

/// A question or an answer. A screen reader reads it as one element.
private struct MessageView: View {
    let message: ChatModel.Message

    var body: some View {
        VStack(alignment: .leading, spacing: 4) {
            Text(message.isFromUser ? "You" : "ChatGPT").font(.headline)
            Text(message.text).textSelection(.enabled)
        }
        .accessibilityElement(children: .combine)
    }
}

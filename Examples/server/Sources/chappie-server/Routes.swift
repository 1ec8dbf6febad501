import ChappieSDK
import ChappieSDKRuntime
import ChappieThreadsPostgres
import Foundation
import HTTPTypes
import Hummingbird

/// The context of a request, with the user whom the cookie names.
struct Context: RequestContext {
    var coreContext: CoreRequestContextStorage
    var user = ""

    init(source: ApplicationRequestContextSource) { coreContext = .init(source: source) }
}

/// The server's addresses.
struct Routes {
    let cookies: Cookies
    let users: Users
    let turns: Turns
    let database: ChappiePostgresDatabase
    let health: Health

    var router: Router<Context> {
        let router = Router(context: Context.self)
        router.add(middleware: Failures())
        router.get("/") { _, _ in
            Response(
                status: .ok,
                headers: [
                    .contentType: "text/html; charset=utf-8",
                    .contentSecurityPolicy: "default-src 'none'; script-src 'unsafe-inline'; "
                        + "style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
                ], body: ResponseBody(byteBuffer: ByteBuffer(bytes: PackageResources.page_html)))
        }
        router.get("/health/live") { _, _ in Response.json(["status": "alive"]) }
        router.get("/health/ready") { _, _ in await health.readiness }
        router.get("/metrics") { _, _ in await health.metrics }
        // A demonstration: anybody may be anybody. Your server signs its own users in here.
        router.post("/session") { request, _ in
            guard let name = try await request.json()["name"]?.string, let cookie = cookies.make(for: name) else {
                throw Failure(.badRequest, "A name has 1 to 64 letters, digits, dots and hyphens.")
            }
            var response = Response(status: .noContent)
            response.setCookie(
                Cookie(name: Cookies.name, value: cookie, path: "/", httpOnly: true, sameSite: .strict))
            return response
        }
        let own = router.group().add(middleware: SignedIn(cookies: cookies))
        addLink(to: own)
        addThreads(to: own)
        addTurns(to: own)
        return router
    }

    private func addLink(to router: RouterGroup<Context>) {
        router.post("/link") { _, context in
            await users.link(context.user)
            return Response(status: .accepted)
        }
        router.get("/link/events") { request, context in
            Response.events(for: request) { try await users.sendLink(of: context.user, to: &$0) }
        }
        router.delete("/link") { _, context in
            try await users.unlink(context.user)
            return Response(status: .noContent)
        }
    }

    private func addThreads(to router: RouterGroup<Context>) {
        router.get("/threads") { _, context in
            let threads = try await database.threads(of: context.user).threads()
            return Response.json(
                .array(
                    threads.map { thread in
                        [
                            "id": .string(thread.id), "title": .string(thread.name),
                            "updated": .string(thread.updatedAt.ISO8601Format()),
                        ]
                    }))
        }
        router.get("/threads/:thread") { _, context in
            let id = try context.parameters.require("thread")
            let thread = try await database.threads(of: context.user).thread(id)
            let turns = thread.turns.map { turn -> ChappieJSON in
                [
                    "id": .string(turn.id), "question": .string(turn.messages.map(\.text).joined(separator: "\n")),
                    "answer": .string(turn.outputText), "status": .string(turn.status.rawValue),
                ]
            }
            return Response.json(["id": .string(id), "turns": .array(turns)])
        }
        router.post("/threads/:thread/turns") { request, context in
            guard let text = try await request.json()["text"]?.string, !text.isEmpty else {
                throw Failure(.badRequest, "A turn needs a text.")
            }
            let named = try context.parameters.require("thread")
            guard named == "new" || UUID(uuidString: named) != nil else {
                throw Failure(.notFound, "There is no such thread.")
            }
            let thread = named == "new" ? UUID().uuidString.lowercased() : named
            let turn = try await turns.begin(text, in: thread, of: context.user)
            return Response.json(["turn": .string(turn), "thread": .string(thread)], status: .accepted)
        }
    }

    private func addTurns(to router: RouterGroup<Context>) {
        router.get("/turns/:turn/events") { request, context in
            let turn = try context.parameters.require("turn")
            return Response.events(for: request) { try await turns.send(turn, of: context.user, to: &$0) }
        }
        router.post("/turns/:turn/approval") { request, context in
            let turn = try context.parameters.require("turn")
            let answer = try await request.json()
            guard let call = answer["id"]?.string, let isAllowed = answer["allow"]?.bool else {
                throw Failure(.badRequest, "An approval needs the call's id, and whether it is allowed.")
            }
            let decision: ChappieApprovalDecision =
                isAllowed ? .approved() : .denied(reason: "The user does not want it.")
            guard try await turns.decide(call, decision, in: turn, of: context.user) else {
                throw Failure(.conflict, "The turn does not wait for this approval.")
            }
            return Response(status: .noContent)
        }
        router.post("/turns/:turn/stop") { _, context in
            let turn = try context.parameters.require("turn")
            guard try await turns.stop(turn, of: context.user) else {
                throw Failure(.conflict, "The turn does not run here now.")
            }
            return Response(status: .noContent)
        }
    }
}

/// Finds the user in the cookie.
private struct SignedIn: RouterMiddleware {
    let cookies: Cookies

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        guard let user = request.cookies[Cookies.name].flatMap({ cookies.user(in: $0.value) }) else {
            throw Failure(.unauthorized, "Sign in first.")
        }
        var context = context
        context.user = user
        return try await next(request, context)
    }
}

/// An answer that is an error.
struct Failure: Error {
    let status: HTTPResponse.Status
    let words: String

    init(_ status: HTTPResponse.Status, _ words: String) {
        self.status = status
        self.words = words
    }
}

/// Answers with the errors of the server and of Chappie as JSON.
private struct Failures: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as HTTPError {
            throw error
        } catch {
            let failure = failure(for: error)
            var response = Response.json(["error": .string(failure.words)], status: failure.status)
            if failure.status == .serviceUnavailable {
                response.headers[.retryAfter] = "1"
            } else if failure.status.kind == .serverError {
                report("\(request.method) \(request.uri.path): \(failure.words)")
            }
            return response
        }
    }

    private func failure(for error: any Error) -> Failure {
        switch error {
        case let failure as Failure: failure
        case ChappieClientError.missingCredential, ChappieClientError.reauthenticationRequired:
            Failure(.conflict, "You have not linked a ChatGPT account. Link one, and ask again.")
        case ChappieClientError.tooManyTurns: Failure(.tooManyRequests, sentence(of: error))
        case ChappieClientError.stopping: Failure(.serviceUnavailable, sentence(of: error))
        case ChappieThreadStoreError.notFound: Failure(.notFound, sentence(of: error))
        default: Failure(.badGateway, sentence(of: error))
        }
    }
}

/// Returns an error's sentence for the user.
func sentence(of error: any Error) -> String {
    if error is CancellationError { return "The turn was stopped." }
    return (error as? any LocalizedError)?.errorDescription ?? "The server could not do this."
}

extension Request {
    /// Reads the body, a JSON object of at most 1 MiB.
    fileprivate func json() async throws -> ChappieJSON {
        let body = try await body.collect(upTo: 1 << 20)
        do {
            return try ChappieJSON(parsing: Array(body.readableBytesView))
        } catch {
            throw Failure(.badRequest, "The body is not JSON.")
        }
    }
}

extension Response {
    static func json(_ value: ChappieJSON, status: HTTPResponse.Status = .ok) -> Response {
        Response(
            status: status, headers: [.contentType: "application/json", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: value.serializedBytes())))
    }
}

// NWConnection over sockets of Linux, and over OpenSSL for TLS: enough of it to run the adapter against real peers.
//
// Like the framework's: each handler and completion is called on the queue of `start`, and each completion once. The states
// are `preparing`, then `ready`, or `waiting` where a later attempt might succeed, as with a port that nothing listens on, or
// `failed`. A connection that waits does so until it is cancelled. `cancelled` is the last call, after every completion has
// had ECANCELED, and releases the handlers. A stream's last bytes may come together with its end, and a receive after the end
// has the error ENODATA. Bytes are read only for a receive, and a send is complete when the socket has taken its bytes.
//
// Unlike it: a connection that waits never tries again, and nothing notices a loss of the network. There are no system proxies,
// VPNs or privacy prompts, and no Happy Eyeballs: addresses are tried in turn. Of proxies there is only plain CONNECT. Which
// error the framework reports for a proxy that refuses, or for a failed handshake, and whether it then waits or fails, is
// assumed. A certificate is checked after the handshake, not within it, and sessions are never resumed. A receive or send
// before `ready` is an error. A reset is noticed by the next receive, not by the state.
public import Dispatch
public import Foundation
import Glibc

public final class NWConnection: @unchecked Sendable {
    public enum State: Equatable, Sendable {
        case setup, waiting(NWError), preparing, ready, failed(NWError), cancelled
    }
    public enum SendCompletion {
        @preconcurrency case contentProcessed(@Sendable (_ error: NWError?) -> Void)
        case idempotent
    }
    public class ContentContext: @unchecked Sendable {
        public static let defaultMessage = ContentContext()
        public static let finalMessage = ContentContext()
    }
    public typealias ReceiveCompletion =
        @Sendable (
            _ content: Data?, _ contentContext: ContentContext?, _ isComplete: Bool, _ error: NWError?
        ) -> Void

    private let lock = NSRecursiveLock()
    private let endpoint: NWEndpoint
    private let parameters: NWParameters
    private let reading = DispatchQueue(label: "reading")
    private let writing = DispatchQueue(label: "writing")
    private var queue: DispatchQueue?
    private var socket: CInt = -1
    private var tls: TLS?
    private var isReady = false
    private var isCancelled = false
    private var hasEnded = false
    private var handler: (@Sendable (State) -> Void)?
    private var current = State.setup

    public init(host: NWEndpoint.Host, port: NWEndpoint.Port, using: NWParameters) {
        endpoint = .hostPort(host: host, port: port)
        parameters = using
    }

    public var state: State { locked { current } }

    @preconcurrency public var stateUpdateHandler: (@Sendable (_ state: State) -> Void)? {
        get { locked { handler } }
        set { locked { handler = newValue } }
    }

    public func start(queue: DispatchQueue) {
        let isFirst = locked {
            guard self.queue == nil, !isCancelled else { return false }
            self.queue = queue
            return true
        }
        guard isFirst else { return }
        enter(.preparing)
        reading.async { self.establish() }
    }

    public func cancel() {
        let isFirst = locked {
            guard !isCancelled else { return false }
            isCancelled = true
            if socket >= 0 { shutdown(socket, CInt(SHUT_RDWR)) }
            return true
        }
        guard isFirst else { return }
        // After everything that these queues have begun.
        reading.async {
            self.writing.async {
                self.locked {
                    if self.socket >= 0 { close(self.socket) }
                    self.socket = -1
                }
                self.enter(.cancelled)
            }
        }
    }

    @preconcurrency public func receive(
        minimumIncompleteLength: Int, maximumLength: Int, completion: @escaping ReceiveCompletion
    ) {
        precondition(minimumIncompleteLength == 1, "this reads what there is")
        reading.async {
            let arrival = self.read(atMost: maximumLength)
            self.queue?.async {
                completion(arrival.content, .defaultMessage, arrival.isComplete, arrival.error)
            }
        }
    }

    @preconcurrency public func send(
        content: Data?, contentContext: ContentContext = .defaultMessage, isComplete: Bool = true,
        completion: SendCompletion
    ) {
        writing.async {
            let error = self.write([UInt8](content ?? Data()))
            if case .contentProcessed(let completion) = completion { self.queue?.async { completion(error) } }
        }
    }

    private func locked<Value>(_ body: () -> Value) -> Value {
        lock.lock()
        defer { lock.unlock() }
        return body()
    }

    private func enter(_ state: State) {
        queue?.async {
            // Nothing but the end follows a cancellation.
            let handler = self.locked { () -> (@Sendable (State) -> Void)? in
                guard !self.isCancelled || state == .cancelled else { return nil }
                self.current = state
                return self.handler
            }
            handler?(state)
            if state == .cancelled { self.stateUpdateHandler = nil }
        }
    }

    // MARK: Opening

    private func establish() {
        switch connect() {
        case .success:
            locked { isReady = true }
            enter(.ready)
        case .failure(let error):
            if case .tls = error { enter(.failed(error)) } else { enter(.waiting(error)) }
        }
    }

    private func connect() -> Result<Void, NWError> {
        let proxy = parameters.context?.proxyConfigurations.first
        if let error = dial(proxy?.endpoint ?? endpoint) { return .failure(error) }
        if let proxy, let error = tunnel(through: proxy) { return .failure(error) }
        guard let options = parameters.tls else { return .success(()) }
        guard case .hostPort(.name(let host), _) = endpoint else { fatalError() }
        let tls = TLS(with: host, options.securityProtocolOptions)
        self.tls = tls
        while !tls.isOpen {
            let step = tls.shakeHands()
            if let error = put(tls.outgoing()) { return .failure(error) }
            if let error = step.error { return .failure(error) }
            guard !tls.isOpen else { break }
            switch take(atMost: 16 << 10) {
            case .success(let bytes) where bytes.isEmpty: return .failure(.posix(.ECONNRESET))
            case .success(let bytes): tls.arrived(bytes)
            case .failure(let error): return .failure(error)
            }
        }
        return tls.verify().map { .failure($0) } ?? .success(())
    }

    private func dial(_ endpoint: NWEndpoint) -> NWError? {
        guard case .hostPort(.name(let host), let port) = endpoint else { fatalError() }
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, "\(port.rawValue)", &hints, &list) == 0 else { return .dns(noSuchRecord) }
        defer { freeaddrinfo(list) }
        var error = NWError.posix(.ECONNREFUSED)
        var next = list
        while let address = next?.pointee {
            next = address.ai_next
            let new = Glibc.socket(
                address.ai_family, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
            let goesOn = locked {
                if socket >= 0 { close(socket) }
                socket = new
                return !isCancelled
            }
            guard goesOn else { return .posix(.ECANCELED) }
            var on: CInt = parameters.tcp.noDelay ? 1 : 0
            setsockopt(new, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
            var result = Glibc.connect(new, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno
            if result == EINPROGRESS {
                var end = pollfd(fd: new, events: Int16(POLLOUT), revents: 0)
                poll(&end, 1, -1)
                var size = socklen_t(MemoryLayout<CInt>.size)
                getsockopt(new, SOL_SOCKET, SO_ERROR, &result, &size)
            }
            if locked({ isCancelled }) { return .posix(.ECANCELED) }
            guard result != 0 else {
                _ = fcntl(new, F_SETFL, fcntl(new, F_GETFL) & ~O_NONBLOCK)
                return nil
            }
            error = .posix(POSIXErrorCode(rawValue: result) ?? .EIO)
        }
        return error
    }

    private func tunnel(through proxy: ProxyConfiguration) -> NWError? {
        guard proxy.isCONNECT, proxy.tlsOptions == nil else { fatalError("this proxy is not in the stand-in") }
        guard case .hostPort(.name(let host), let port) = endpoint else { fatalError() }
        let place = "\(host.contains(":") ? "[\(host)]" : host):\(port.rawValue)"
        let credential = proxy.credential.base64.map { "Proxy-Authorization: Basic \($0)\r\n" } ?? ""
        if let error = put(Array("CONNECT \(place) HTTP/1.1\r\nHost: \(place)\r\n\(credential)\r\n".utf8)) {
            return error
        }
        var head: [UInt8] = []
        while !head.suffix(4).elementsEqual(Array("\r\n\r\n".utf8)) {
            guard case .success(let byte) = take(atMost: 1), !byte.isEmpty else { return .posix(.ECONNRESET) }
            head += byte
        }
        let status = String(decoding: head, as: UTF8.self).split(separator: " ").dropFirst().first
        return status == "200" ? nil : .posix(.ECONNREFUSED)
    }

    // MARK: Bytes

    private func read(atMost limit: Int) -> (content: Data?, isComplete: Bool, error: NWError?) {
        guard locked({ isReady && !isCancelled }) else { return (nil, false, .posix(.ECANCELED)) }
        guard !hasEnded else { return (nil, false, .posix(.ENODATA)) }
        while true {
            if let tls {
                switch tls.read(atMost: limit) {
                case .bytes(let bytes): return (Data(bytes), false, nil)
                case .end:
                    hasEnded = true
                    return (nil, true, nil)
                case .failed: return (nil, false, .tls(TLS.protocolError))
                case .needsMore: break
                }
            }
            switch take(atMost: limit) {
            case .failure(let error): return (nil, false, error)
            case .success(let bytes):
                hasEnded = bytes.isEmpty || tls == nil && isAtEnd
                if let tls, !bytes.isEmpty {
                    tls.arrived(bytes)
                } else {
                    return (bytes.isEmpty ? nil : Data(bytes), hasEnded, nil)
                }
            }
        }
    }

    private var isAtEnd: Bool {
        var byte: UInt8 = 0
        return recv(socket, &byte, 1, CInt(MSG_PEEK | MSG_DONTWAIT)) == 0
    }

    private func write(_ bytes: [UInt8]) -> NWError? {
        guard locked({ isReady && !isCancelled }) else { return .posix(.ECANCELED) }
        guard let tls else { return put(bytes) }
        tls.write(bytes)
        return put(tls.outgoing())
    }

    private func take(atMost limit: Int) -> Result<[UInt8], NWError> {
        var buffer = [UInt8](repeating: 0, count: limit)
        let count = recv(socket, &buffer, limit, 0)
        if locked({ isCancelled }) { return .failure(.posix(.ECANCELED)) }
        guard count >= 0 else { return .failure(.posix(POSIXErrorCode(rawValue: errno) ?? .EIO)) }
        return .success(Array(buffer.prefix(count)))
    }

    private func put(_ bytes: [UInt8]) -> NWError? {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            guard count > 0 else {
                let code = POSIXErrorCode(rawValue: errno) ?? .EIO
                return .posix(locked({ isCancelled }) ? .ECANCELED : code)
            }
            rest = rest.dropFirst(count)
        }
        return nil
    }
}

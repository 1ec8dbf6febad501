import CTLS
import Dispatch
import Foundation
import Security

/// TLS of one connection, between buffers. Its reader and its writer have a thread each.
final class TLS: @unchecked Sendable {
    enum Arrival {
        case bytes([UInt8])
        case end, failed, needsMore
    }

    static let protocolError = errSSLProtocol

    private let lock = NSLock()
    private let host: String
    private let options: ProtocolOptions
    private let tls: OpaquePointer
    private(set) var isOpen = false

    init(with host: String, _ options: any OS_sec_protocol_options) {
        self.host = host
        self.options = options as! ProtocolOptions
        let protocols = self.options.applicationProtocols.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
        tls = ctls_new(host, CInt(self.options.minimumVersion.rawValue), protocols, protocols.count)
    }

    deinit { ctls_free(tls) }

    func shakeHands() -> (isOpen: Bool, error: NWError?) {
        locked {
            let result = ctls_shake_hands(tls)
            isOpen = result == 1
            return (isOpen, result < 0 ? .tls(Self.protocolError) : nil)
        }
    }

    /// Checks the certificate, by the options' own block if they have one.
    func verify() -> NWError? {
        var verdict = ctls_untrusted
        // No page says that a block's trust names the host, so this one doesn't.
        let trust = SecTrust(host: options.verification == nil ? host : nil) { [self] trust in
            verdict = locked {
                for anchor in trust.anchors {
                    anchor.withUnsafeBytes { ctls_trust(tls, $0.baseAddress, $0.count) }
                }
                return ctls_verify(tls, trust.host, !trust.hasOnlyAnchors)
            }
            return verdict == ctls_good
        }
        guard let verification = options.verification else {
            guard !SecTrustEvaluateWithError(trust, nil) else { return nil }
            switch verdict {
            case ctls_expired: return .tls(errSSLCertExpired)
            case ctls_not_yet_valid: return .tls(errSSLCertNotYetValid)
            case ctls_other_host: return .tls(errSSLHostNameMismatch)
            default: return .tls(errSSLXCertChainInvalid)
            }
        }
        let done = DispatchSemaphore(value: 0)
        var isAccepted = false
        verification.queue.async {
            verification.block(ProtocolMetadata(), ProtocolTrust(trust)) {
                isAccepted = $0
                done.signal()
            }
        }
        done.wait()
        return isAccepted ? nil : .tls(errSSLBadCert)
    }

    func arrived(_ bytes: [UInt8]) { locked { ctls_take(tls, bytes, bytes.count) } }

    func write(_ bytes: [UInt8]) { locked { ctls_write(tls, bytes, bytes.count) } }

    func read(atMost limit: Int) -> Arrival {
        locked {
            var buffer = [UInt8](repeating: 0, count: limit)
            let count = ctls_read(tls, &buffer, limit)
            switch count {
            case 0: return .end
            case -1: return .needsMore
            case ..<0: return .failed
            default: return .bytes(Array(buffer.prefix(Int(count))))
            }
        }
    }

    /// The bytes to send.
    func outgoing() -> [UInt8] {
        locked {
            var all: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 16 << 10)
            while true {
                let count = ctls_give(tls, &buffer, buffer.count)
                guard count > 0 else { return all }
                all += buffer.prefix(count)
            }
        }
    }

    private func locked<Value>(_ body: () -> Value) -> Value {
        lock.lock()
        defer { lock.unlock() }
        return body()
    }
}

import ChappieCore
import ChappieCurl

extension CurlFailure {
    /// One of our callbacks stopped the transfer.
    func error(for objection: CurlTransfer.Objection) -> ChappieTransportError {
        switch objection {
        case .repeatedRequest: lost
        case .violation(let reason): failure(.protocolViolation, stage == .firstByte ? .responseBody : stage, reason)
        case .refusedByProxy(let status): failure(.proxyFailed, .responseHead, proxyRefusal(status))
        }
    }
}

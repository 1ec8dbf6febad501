import ArgumentParser
import ChappieSDK

/// How answers are to travel.
enum TransportOption: String, ExpressibleByArgument, CaseIterable {
    case auto, websocket, sse

    var policy: ChappieStreamingTransportPolicy {
        switch self {
        case .auto: .default
        case .websocket: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)
        case .sse: .httpSSEOnly
        }
    }
}

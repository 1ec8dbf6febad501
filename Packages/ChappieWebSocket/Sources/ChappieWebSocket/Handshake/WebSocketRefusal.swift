import HTTPTypes

/// An answer other than 101: an ordinary response.
struct WebSocketRefusal: Sendable {
    let status: HTTPResponse.Status
    let headerFields: HTTPFields
    /// To be given what comes from now on.
    var body: ResponseBodyDecoder
    /// The beginning of the body that came with the head, decoded.
    let received: [UInt8]
}

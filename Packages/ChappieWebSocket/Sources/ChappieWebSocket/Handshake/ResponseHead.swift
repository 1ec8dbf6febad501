import HTTPTypes

/// The head of an HTTP/1.1 response (RFC 9112).
struct ResponseHead: Sendable, Hashable {
    var status: HTTPResponse.Status
    var headerFields: HTTPFields
}

public import HTTPTypes

/// The response of one HTTP exchange: the final head (informational and redirect heads are gone) and the body to come.
public struct HTTPExchangeResponse: Sendable {
    public var status: HTTPResponse.Status
    public var headerFields: HTTPFields
    public var body: HTTPBody

    public init(status: HTTPResponse.Status, headerFields: HTTPFields = [:], body: HTTPBody = HTTPBody(bytes: [])) {
        self.status = status
        self.headerFields = headerFields
        self.body = body
    }
}

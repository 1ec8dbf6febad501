import HTTPTypes

/// Status and header fields of a final response.
struct ResponseHead: Hashable {
    var status: HTTPResponse.Status
    var headerFields: HTTPFields
}

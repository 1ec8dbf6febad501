import ChappieCore

extension Backend {
    /// The catalogue, or 304 for who has it already (RFC 9110, 13.1.2).
    func models(_ request: BackendRequest) -> BackendResponse {
        let tag = ("etag", ModelCatalogue.entityTag)
        if let known = request.header("if-none-match"),
            known.split(separator: ",").contains(where: {
                let candidate = $0.trimmed
                return candidate == "*" || weak(candidate) == weak(ModelCatalogue.entityTag)
            })
        {
            return .empty(status: 304, headers: [tag])
        }
        return BackendResponse(
            status: 200, headers: [("content-type", "application/json"), tag], body: .bytes(ModelCatalogue.bytes))
    }

    /// Entity tags are compared without the mark of weakness (RFC 9110, 8.8.3.2).
    private func weak(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }
}

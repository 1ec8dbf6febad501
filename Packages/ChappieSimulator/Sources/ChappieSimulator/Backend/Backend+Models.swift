import ChappieCore

extension Backend {
    /// The catalogue, or 304 for who has it already (RFC 9110, 13.1.2).
    func models(_ request: BackendRequest, for account: SimulatorAccount) -> BackendResponse {
        let catalogue = catalogue(for: account)
        let tag = ("etag", catalogue.entityTag)
        if let known = request.header("if-none-match"),
            known.split(separator: ",").contains(where: {
                let candidate = $0.trimmed
                return candidate == "*" || weak(candidate) == weak(catalogue.entityTag)
            })
        {
            return .empty(status: 304, headers: [tag])
        }
        return BackendResponse(
            status: 200, headers: [("content-type", "application/json"), tag], body: .bytes(catalogue.bytes))
    }

    /// Entity tags are compared without the mark of weakness (RFC 9110, 8.8.3.2).
    private func weak(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }
}

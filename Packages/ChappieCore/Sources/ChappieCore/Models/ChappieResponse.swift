/// A response, whole or as far as it came.
public struct ChappieResponse: Sendable, Hashable, Codable {
    /// The backend's id; empty when it sent none.
    public var id: String
    public var status: ChappieResponseStatus
    /// The model that answered, as the backend says.
    public var model: String?
    /// The text of all messages in ``items``, in order.
    public var outputText: String
    /// The items that were completed, in order, unknown ones included.
    public var items: [ChappieOutputItem]
    public var usage: ChappieTokenUsage?
    public var error: ChappieResponseError?
    /// Why an incomplete response ended, in the backend's word: `max_output_tokens`, `content_filter`, …
    public var incompleteReason: String?
    /// The response object as it came.
    public var raw: ChappieJSON

    /// Reads a response object; `fallback` is its status when it does not say.
    public init(_ json: ChappieJSON, _ fallback: ChappieResponseStatus) {
        raw = json
        id = json["id"]?.string ?? ""
        status = json["status"]?.string.map(ChappieResponseStatus.init(rawValue:)) ?? fallback
        model = json["model"]?.string
        items = (json["output"]?.array ?? []).map(ChappieOutputItem.init)
        outputText = items.map(\.text).joined()
        usage = json["usage"].flatMap { $0.object == nil ? nil : ChappieTokenUsage($0) }
        error = json["error"].flatMap { $0.isNull ? nil : ChappieResponseError($0) }
        incompleteReason = json["incomplete_details"]?["reason"]?.string
    }

    /// The same response with the items that its stream delivered; those win over the ones in the object.
    public func with(items streamed: [ChappieOutputItem], text: String) -> ChappieResponse {
        var response = self
        if !streamed.isEmpty { response.items = streamed }
        let itemText = response.items.map(\.text).joined()
        response.outputText = itemText.isEmpty ? text : itemText
        return response
    }
}

@_spi(ChappieInternals) import ChappieCore

/// The function with which a model makes pictures. It names pictures of the conversation by number and never by path,
/// so that a model can't read the user's files with it.
struct ImageParameters {
    let prompt: String
    let size: String
    let isTransparent: Bool
    /// The `data:` URLs of the pictures to change.
    let images: [String]

    /// A mistake of the model, with the message to it.
    struct Mistake: Error { let message: String }

    static let description = """
        Makes a picture from a description, or changes pictures of this conversation. Use it when the user asks for a \
        picture, and at most once for each picture that the user wants, because each one uses the user's quota. The \
        user sees the picture at once, so don't describe it at length. The pictures of the conversation, attached or \
        made, have the numbers 1, 2 and so on, in the order in which they appear. To change a picture, name its number \
        in images and describe the change.
        """

    static let schema: ChappieJSON = [
        "type": "object",
        "properties": [
            "prompt": ["type": "string", "description": "The description of the picture or of the change."],
            "images": [
                "type": "array", "items": ["type": "integer", "minimum": 1],
                "maxItems": .integer(ChappieImageRequest.imageLimit),
                "description": "The numbers of the pictures to change. Leave it out for a new picture.",
            ],
            "size": ["type": "string", "description": "The size as WIDTHxHEIGHT in pixels, or auto."],
            "transparent_background": ["type": "boolean"],
        ],
        "required": ["prompt"],
    ]

    /// Reads the arguments of a call.
    ///
    /// - Parameter known: the `data:` URLs of the conversation's pictures.
    init(_ arguments: ChappieJSON, among known: [String]) throws(Mistake) {
        prompt = arguments["prompt"]?.string ?? ""
        guard !prompt.allSatisfy(\.isWhitespace) else { throw Mistake(message: "The prompt is empty.") }
        size = arguments["size"]?.string ?? "auto"
        isTransparent = arguments["transparent_background"] == true
        var images: [String] = []
        for number in arguments["images"]?.array ?? [] {
            guard let number = number.int, known.indices.contains(number - 1) else {
                throw Mistake(
                    message: "There is no picture \(number.serialized()). "
                        + (known.isEmpty ? "The conversation has none." : "The conversation has \(known.count)."))
            }
            images.append(known[number - 1])
        }
        self.images = images
    }

    /// Returns the `data:` URLs of the pictures in an item of the conversation.
    static func pictures(in item: ChappieJSON) -> [String] {
        ["content", "output"].flatMap { item[$0]?.array ?? [] }.compactMap(ChappieGeneratedImage.dataURL)
    }
}

import ChappieCore

/// The endpoints that make pictures and change them.
extension Backend {
    private static let imageModels: Set<ChappieJSON> = [
        "gpt-image-2", "gpt-image-2.5-flare", "gpt-image-2.5-sunburst",
    ]
    /// The number of pictures that one edit may change.
    private static let editLimit = 5

    /// Returns a picture. The same prompt always gets the same one.
    ///
    /// - Parameter effect: the size of the picture in bytes, if it is not the usual one.
    func makeImage(_ request: BackendRequest, now: Int, effect: ScenarioEffect) -> BackendResponse {
        let isEdit = request.route == .imageEdits
        let usual: Set = ["prompt", "model", "background", "quality", "size", "n"]
        do throws(BackendResponse) {
            let body = try request.plainObject(allowing: isEdit ? usual.union(["images"]) : usual)
            try Self.checkImage(body)
            if isEdit { try Self.checkImages(body["images"]) }
            return Self.image(of: body, isEdit: isEdit, now: now, byteCount: effect.picture?.bytes.map(Int.init))
        } catch {
            return error
        }
    }

    private static func checkImage(_ body: ChappieJSON) throws(BackendResponse) {
        guard body["prompt"]?.string?.isEmpty == false else { throw .missing("prompt") }
        guard let model = body["model"] else { throw .missing("model") }
        guard imageModels.contains(model) else { throw .invalid("There is no such model.", parameter: "model") }
        let allowed: [(String, [ChappieJSON])] = [
            ("background", ["opaque", "transparent", "auto"]), ("quality", ["low", "medium", "high", "auto"]),
        ]
        for (name, values) in allowed where body[name].map({ !values.contains($0) }) ?? false {
            throw .invalid("\(name) has another value than the allowed ones.", parameter: name)
        }
        if let size = body["size"]?.string, size != "auto", size.wholeMatch(of: /[1-9][0-9]*x[1-9][0-9]*/) == nil {
            throw .invalid("size must be auto or WIDTHxHEIGHT.", parameter: "size")
        }
    }

    private static func checkImages(_ images: ChappieJSON?) throws(BackendResponse) {
        guard let images = images?.array, !images.isEmpty else { throw .missing("images") }
        guard images.count <= editLimit else {
            throw .invalid("At most \(editLimit) images can be edited.", parameter: "images")
        }
        for (index, image) in images.enumerated() {
            let parts = image["image_url"]?.string?.split(separator: ";base64,", maxSplits: 1) ?? []
            guard parts.count == 2, ["data:image/png", "data:image/jpeg", "data:image/webp"].contains(parts[0]),
                Data(base64Encoded: String(parts[1])) != nil
            else {
                throw .invalid(
                    "An image must be a data: address with a PNG, a JPEG or a WebP in Base64.",
                    parameter: "images[\(index)].image_url")
            }
        }
    }

    private static func image(of body: ChappieJSON, isEdit: Bool, now: Int, byteCount: Int?) -> BackendResponse {
        let prompt = body["prompt"]?.string ?? ""
        let isTransparent = body["background"] == "transparent"
        // An edit has another shape, so that the two can be told apart.
        var picture = PNG.filled(
            width: isEdit ? 32 : 48, height: isEdit ? 48 : 32, by: prompt, isTransparent: isTransparent)
        var padding = ""
        if let byteCount {
            // Zeros after its end are no part of a picture. In Base64, three of them are four times an A.
            picture += [UInt8](repeating: 0, count: (3 - picture.count % 3) % 3)
            padding = String(repeating: "AAAA", count: max(0, byteCount - picture.count) / 3)
        }
        let inputSize = prompt.utf8.count / 4 + 1
        // Size and quality are those that were asked for, which need not be the picture's.
        let size = body["size"].flatMap { $0 == "auto" ? nil : $0 } ?? "1024x1024"
        let quality = body["quality"].flatMap { $0 == "auto" ? nil : $0 } ?? "medium"
        let rest: ChappieJSON = [
            "background": isTransparent ? "transparent" : "opaque", "output_format": "png", "quality": quality,
            "size": size,
            "usage": [
                "input_tokens": .integer(inputSize), "output_tokens": 1056,
                "total_tokens": .integer(inputSize + 1056),
            ],
        ]
        // The picture is not put into a JSON value, because it may have tens of megabytes.
        let start = #"{"created":\#(now),"data":[{"b64_json":""# + Data(picture).base64EncodedString() + padding
        let bytes = Array(start.utf8) + Array(#""}],"#.utf8) + rest.serializedBytes().dropFirst()
        return BackendResponse(headers: [("content-type", "application/json")], body: .bytes(bytes))
    }
}

/// A writer of small pictures in the PNG format (ISO/IEC 15948), uncompressed.
private enum PNG {
    /// Returns a picture of one color.
    ///
    /// - Parameter text: the text that determines the color.
    static func filled(width: Int, height: Int, by text: String, isTransparent: Bool) -> [UInt8] {
        let hash = text.utf8.reduce(UInt32(2_166_136_261)) { ($0 ^ UInt32($1)) &* 16_777_619 }
        let color: [UInt8] = bytes(of: hash).dropFirst() + (isTransparent ? [0x80] : [])
        let row: [UInt8] = [0] + Array(repeating: color, count: width).joined()
        let pixels = Array(Array(repeating: row, count: height).joined())
        let colorType: UInt8 = isTransparent ? 6 : 2
        return [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
            + chunk("IHDR", bytes(of: UInt32(width)) + bytes(of: UInt32(height)) + [8, colorType, 0, 0, 0])
            + chunk("IDAT", zlib(pixels)) + chunk("IEND", [])
    }

    private static func chunk(_ name: String, _ data: [UInt8]) -> [UInt8] {
        let content = Array(name.utf8) + data
        return bytes(of: UInt32(data.count)) + content + bytes(of: crc(content))
    }

    /// Returns `data` as one stored block (RFC 1951, 3.2.4) in a zlib stream (RFC 1950).
    private static func zlib(_ data: [UInt8]) -> [UInt8] {
        let size = UInt16(data.count)
        let sizes: [UInt8] = [size, ~size].flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        var (first, second) = (UInt32(1), UInt32(0))
        for byte in data {
            first = (first + UInt32(byte)) % 65_521
            second = (second + first) % 65_521
        }
        return [0x78, 0x01, 0x01] + sizes + data + bytes(of: second << 16 | first)
    }

    private static func crc(_ data: [UInt8]) -> UInt32 {
        ~data.reduce(UInt32.max) { crc, byte in
            (0..<8).reduce(crc ^ UInt32(byte)) { value, _ in value >> 1 ^ (value & 1 == 1 ? 0xEDB8_8320 : 0) }
        }
    }

    private static func bytes(of value: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
    }
}

import FoundationEssentials

/// Certificates in their textual encoding (RFC 7468, section 5).
enum PEMText {
    /// How many certificates `bytes` holds; `nil` when one of them is not one: no end line, no base64, no DER sequence
    /// of the right length.
    ///
    /// Text outside the markers is ignored, as RFC 7468 (section 2) asks.
    static func countCertificates(in bytes: [UInt8]) -> Int? {
        var count = 0
        var body: [UInt8]?
        for line in bytes.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }) {
            let line = trimmed(line)
            if isMarker(line, "BEGIN") {
                guard body == nil else { return nil }
                body = []
            } else if isMarker(line, "END") {
                guard let base64 = body, isDER(base64) else { return nil }
                body = nil
                count += 1
            } else {
                body?.append(contentsOf: line)
            }
        }
        return body == nil ? count : nil
    }

    /// The labels that OpenSSL reads a trust anchor from.
    private static func isMarker(_ line: ArraySlice<UInt8>, _ word: String) -> Bool {
        ["CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"].contains { label in
            line.elementsEqual("-----\(word) \(label)-----".utf8)
        }
    }

    private static func trimmed(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var line = line
        while let last = line.last, last == 0x20 || last == 0x09 { line.removeLast() }
        return line
    }

    /// Whether it decodes to bytes that begin with a SEQUENCE as long as it says, and no longer than they are. (A
    /// "trusted certificate" goes on after it.)
    private static func isDER(_ base64: [UInt8]) -> Bool {
        guard let der = Data(base64Encoded: Data(base64)), der.count > 4, der[0] == 0x30, der[1] & 0x80 != 0 else {
            return false
        }
        let lengthSize = Int(der[1] & 0x7F)
        guard (1...3).contains(lengthSize), der.count > 2 + lengthSize else { return false }
        let length = der[2..<(2 + lengthSize)].reduce(0) { $0 << 8 | Int($1) }
        return 2 + lengthSize + length <= der.count
    }
}

@_spi(Fuzzing) import ChappieAuth

/// Never traps: neither on the bytes as a token, nor on a token whose payload they are.
func readClaims(_ input: UnsafeBufferPointer<UInt8>) -> CInt {
    let bytes = Array(input)
    _ = JWTClaimsFuzzing.read(bytes)
    _ = JWTClaimsFuzzing.read(Array("e30.".utf8) + base64URL(bytes) + Array(".".utf8))
    return 0
}

/// RFC 4648, section 5, without padding.
private func base64URL(_ bytes: [UInt8]) -> [UInt8] {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var output: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
        let group = bytes[start..<min(start + 3, bytes.count)]
        let bits = group.enumerated().reduce(UInt32(0)) { $0 | UInt32($1.element) << (16 - 8 * UInt32($1.offset)) }
        for place in 0...group.count { output.append(alphabet[Int(bits >> (18 - 6 * UInt32(place)) & 63)]) }
    }
    return output
}

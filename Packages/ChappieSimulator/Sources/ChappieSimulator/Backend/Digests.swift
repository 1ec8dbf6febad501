/// SHA-1 (RFC 3174), which the WebSocket handshake is built on.
///
/// Both digests are written by hand, so that a program embeds the simulator without linking a crypto library: nothing
/// here guards a secret.
enum SHA1 {
    static func digest(_ message: [UInt8]) -> [UInt8] {
        var hash: [UInt32] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0]
        for block in blocks(of: message) {
            var schedule = block
            for index in 16..<80 {
                let mixed = schedule[index - 3] ^ schedule[index - 8] ^ schedule[index - 14] ^ schedule[index - 16]
                schedule.append(rotateRight(mixed, 31))
            }
            var (a, b, c, d, e) = (hash[0], hash[1], hash[2], hash[3], hash[4])
            for index in 0..<80 {
                let (mix, constant): (UInt32, UInt32) =
                    switch index {
                    case ..<20: (b & c | ~b & d, 0x5a82_7999)
                    case ..<40: (b ^ c ^ d, 0x6ed9_eba1)
                    case ..<60: (b & c | b & d | c & d, 0x8f1b_bcdc)
                    default: (b ^ c ^ d, 0xca62_c1d6)
                    }
                let next = rotateRight(a, 27) &+ mix &+ e &+ schedule[index] &+ constant
                (a, b, c, d, e) = (next, a, rotateRight(b, 2), c, d)
            }
            for (index, word) in [a, b, c, d, e].enumerated() { hash[index] = hash[index] &+ word }
        }
        return hash.flatMap(bytes)
    }
}

/// SHA-256 (FIPS 180-4), for code challenges, entity tags and the style sheet's hash.
enum SHA256 {
    static func digest(_ message: [UInt8]) -> [UInt8] {
        var hash: [UInt32] = [
            0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
        ]
        for block in blocks(of: message) {
            var schedule = block
            for index in 16..<64 {
                let near = schedule[index - 15]
                let far = schedule[index - 2]
                let first = rotateRight(near, 7) ^ rotateRight(near, 18) ^ (near >> 3)
                let second = rotateRight(far, 17) ^ rotateRight(far, 19) ^ (far >> 10)
                schedule.append(schedule[index - 16] &+ first &+ schedule[index - 7] &+ second)
            }
            var work = hash
            for index in 0..<64 {
                let high = rotateRight(work[4], 6) ^ rotateRight(work[4], 11) ^ rotateRight(work[4], 25)
                let choice = (work[4] & work[5]) ^ (~work[4] & work[6])
                let first = work[7] &+ high &+ choice &+ constants[index] &+ schedule[index]
                let low = rotateRight(work[0], 2) ^ rotateRight(work[0], 13) ^ rotateRight(work[0], 22)
                let majority = (work[0] & work[1]) ^ (work[0] & work[2]) ^ (work[1] & work[2])
                work = [first &+ low &+ majority] + work.dropLast()
                work[4] = work[4] &+ first
            }
            for index in 0..<8 { hash[index] = hash[index] &+ work[index] }
        }
        return hash.flatMap(bytes)
    }

    private static let constants: [UInt32] = [
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
        0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
        0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
        0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
        0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
        0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
        0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2,
    ]
}

/// The padded message in blocks of 16 big-endian words: the padding is the same for both.
private func blocks(of message: [UInt8]) -> [[UInt32]] {
    var padded = message
    padded.append(0x80)
    padded.append(contentsOf: repeatElement(0, count: (120 - padded.count % 64) % 64))
    let bits = UInt64(message.count) * 8
    for shift in stride(from: 56, through: 0, by: -8) { padded.append(UInt8(truncatingIfNeeded: bits >> shift)) }
    return stride(from: 0, to: padded.count, by: 64).map { block in
        stride(from: block, to: block + 64, by: 4).map { padded[$0..<($0 + 4)].reduce(0) { $0 << 8 | UInt32($1) } }
    }
}

private func rotateRight(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }

private func bytes(of word: UInt32) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> $0) } }

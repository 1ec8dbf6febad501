@_spi(ChappieInternals) import ChappieCore

/// A key that signs ID tokens with RSASSA-PKCS1-v1_5 and SHA-256 (RFC 8017, 8.2), in plain Swift.
///
/// Both parts of these keys are public. They sign only this simulator's tokens, and their arithmetic hides nothing.
struct TestSigningKey: Sendable {
    /// The key's `kid`.
    let id: String
    /// The public modulus. The public exponent is 65537.
    let modulus: [UInt8]
    private let first: Half
    private let second: Half
    private let coefficient: [UInt64]

    /// One of the two primes of a key, and the private exponent modulo that prime minus one (RFC 8017, 3.2).
    private struct Half: Sendable {
        let field: MontgomeryField
        let exponent: [UInt8]
    }

    private init(
        id: String, modulus: String, primes: (String, String), exponents: (String, String), coefficient: String
    ) {
        func bytes(_ text: String) -> [UInt8] { Base64URL.decode(text) ?? [] }
        func half(_ prime: String, _ exponent: String) -> Half {
            Half(field: MontgomeryField(modulus: limbs(bytes(prime))), exponent: bytes(exponent))
        }
        self.id = id
        self.modulus = bytes(modulus)
        first = half(primes.0, exponents.0)
        second = half(primes.1, exponents.1)
        self.coefficient = limbs(bytes(coefficient))
    }

    /// Returns the signature of `message`, which is as long as the modulus.
    func signature(of message: [UInt8]) -> [UInt8] {
        // EMSA-PKCS1-v1_5 (RFC 8017, 9.2), with the DigestInfo of SHA-256 (note 1).
        let information: [UInt8] =
            [0x30, 0x31, 0x30, 0x0D, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00]
            + [0x04, 0x20] + SHA256.digest(message)
        let padding = [UInt8](repeating: 0xFF, count: modulus.count - information.count - 3)
        let encoded = limbs([0x00, 0x01] + padding + [0x00] + information)
        // The Chinese remainder theorem (RFC 8017, 5.1.2) needs a quarter of the work.
        let (one, other) = (power(encoded, first), power(encoded, second))
        let field = first.field
        let difference = field.difference(one, field.reduced(other))
        let factor = field.product(difference, coefficient)
        return bytes(sum(other, times(factor, second.field.modulus)), count: modulus.count)
    }

    private func power(_ base: [UInt64], _ half: Half) -> [UInt64] {
        half.field.power(half.field.reducedWide(base), half.exponent)
    }

    /// The public key in the form of RFC 7517.
    var publicKey: ChappieJSON {
        [
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": .string(id), "n": .string(Base64URL.encode(modulus)),
            "e": "AQAB",
        ]
    }

    /// The keys, which are used one after the other.
    static let all = [
        TestSigningKey(
            id: "simulated-1",
            modulus: """
                oVYoNfzOoPfz2mnLyIKo3QefKHzXC8rsKEATa2ZXP9PAqHf6BixhMcgmr1DWyv1AHlXnItqDTOyT6WrS-FDGT2dOyv3mrBTV\
                UsNlO-z5_MK2W9pm8IMIc8kdUaPL9AW3u8fW3BO4JH9PC3-3veGSWbyTlpkqH-nK7Ro2UOaeGDNoq7tpl6bBgzz-pReGU1aK\
                qx00IpxfJSH4nAGfHOOjlIiSuR5wUVyilw6XN_BQBCQpK3zSnY6GsoLw6x4y-8PHozYRSJEGs878R3MeF0Y6HESvi9ZqRTjn\
                bX0Tmqg_vkP18GOKWJ0uemp0hsGZhm0PT26hnWpZx1jHZsU48wvhlw
                """,
            primes: (
                """
                3vlnTCpt3FWStEO7oByd9xaxNeBlmt-4_dW4psHcWDnNNkcxgC9zNEilmP6GhNHO82r7cC54mwoN3_NhURuHkumpY2eR1C97\
                LvQPLJ0l3f41xU0-e529lBhRU8iKDO8LMzyP2MzODLQFqBCxgS3QUo0fDORQtC5tRWiJvORkJMU
                """,
                """
                uTudYvMh1HN1Z6pVNDVFokJ0monKC3auN4-gFJ70EO1ipTz_ReUVN9AMwxi4t_d5TUuNA9MdX-4kLxz-wgG628-2-9YZidU3\
                rlvkWWLVse5eFdwtsN0Jx0VbQ_NlIggrsHalt5ErXJx9rZhI1LDMw9e7f-ptKN7Lt4venwWTKqs
                """
            ),
            exponents: (
                """
                uybbbTKvw6CP4n53nYxnil2hoHcY0UW3IFejBVTyfZsGg-h9w_oP2HKhjCkW_6Sa7_V71k0rLfbibnb51_ojcUxuwODNpiu0\
                WVTA59F_VzVoLJMJPvjHhuZiXNCWDwUVgYvzsSU2TbNMjCR22NZ7ZM7OoSOCGbpePUPhWIrbA4E
                """,
                """
                m4-8YsBrtd9tRy1etyTSIS4MfUig3TXDpDfDqe3AbYLfaIQsood8ZU4dma9mWmHEhqyfdgnTzp_R1ZtVPJt1UWtFcoRhGEdv\
                psfXo1YEv5S_gT5TRQitUKQnvI5pbcZM4rsR-3M4ZmOqjKKq76y3mvXPquK24C8UCUa3JPfqm1c
                """
            ),
            coefficient: """
                P73wfGeKpIEu9QrZAMBBaNAoazoYCIezI5BMJKI6BxzNNaPwXILZKRCfjGR-IaSlmPwHGXqk_7fI1c1TsaiYan0W81opgLLm\
                NaTwF6wWKoq8vVJpGEvXFpRSvhuODi6BMXl5mlEmjincBkgWBMPtTas2xxsEnp-HpNRpOqxwrUE
                """),
        TestSigningKey(
            id: "simulated-2",
            modulus: """
                9p_QMrASB2N-1V-D2i4HTdnzp4HI3zZ6werkdUno1dezTU69yvPH46CzWbhs2zZUXUEuEc2dzKwOevepAKnBT3clafoR3a5J\
                stBU_3YWbUUqh2NN3oL0e5yQemOTOXEN6seGW9BwulcZAu7O4ZrPRYQhix-Q9xWFbYwsj0x6NAXi8X6FKxOxI3t7Hm4o8BuB\
                BI3dRoUjQ3E_0mIi-_I6lA9E8XSy_aXgOyJJ_e3rpUNJRZHfMZYRiHOQYKqFiK1diBRH-vDglPibqU3eamyojG_fX40EV78D\
                yGHfr-HV3OM1I7YH87FrCA7NSOy_-E4OAdmuCKrI_MXvF6J6ljKrOw
                """,
            primes: (
                """
                _K8z4IksR7_citKiumPJs3-Q4HLQ7YkcKDaPuySM1Z0DMrcpH1iYxcGkBtGfU_5x5L84Hg9H2PksmGhsYxALvM5wLrD7vkAu\
                nH1JNputKeQQUl6TPh99I2Osf-Bvj5iSWShyqFvAcroa_TJ1rf_S2MkernMOzR1yypO05ghaHDc
                """,
                """
                -dxBBEe1AfltiZA5JvhOoyvGn8lMmuhTXhNEO-94fwIYEBAj9vYWMk2IORFgTHYXRVe_S6Nbb5D_Tajb153__ZWDAmF_Uy3X\
                2QDtSL8SG6QhDCewUYHaRrg-1CIDTa2QHLKXzz_HRxwjFBdvDZPKRMh8gS6AY0ieYieT8a27zx0
                """
            ),
            exponents: (
                """
                aKgITI-ED5OfvL_RNnHuMLI9RzlG35tSVjWDAnf4_OCzWmYSWjFP1ViGn2xjGV7hvWSV0Z1ynKNXnShi_ATBV8oJHM2g9wOO\
                SrJ5iGyiJB-ZwwP46FoScn3uDGjgzBDdTKA8HQ8jfmEmnIgxxYeXxMJIOujc0IfJ662R11TOPbE
                """,
                """
                lEO_jPOkFETXW_7p-xbzSt4KIf0IaQ-dkMBsCAjE_tDWSInbXYuPhk_9mqeV9ilJC8vS5uZLtrta09F0itDl-6sBr6L9M_WL\
                FOj45OcErsRJG_ZdKTCdvsNL_QMl5K0uS-kqLkARVz_6DM0PCAZ_yysQvnNCmieYXHRR1OKcBH0
                """
            ),
            coefficient: """
                8OrAuk5aUvFk6MHiWRlp5PolHsRZg9ZdMW5Hr9pnlyl2EUqpGZcotQQzB40ewE9G88c8EReNx7VUNtN4owXkQ4fJwHseQ1Jl\
                8kXUmcLcDVeJMVL3dr6BgCP04eJp5muR0ewIPGnT7zv3iucTIrIM1YfeXI9wWpSnxDDjObItE20
                """),
    ]
}

/// Arithmetic modulo an odd number in Montgomery form. Its numbers have the same count of words and begin with the
/// lowest word.
private struct MontgomeryField: Sendable {
    let modulus: [UInt64]
    /// The negative inverse of the modulus' lowest word, modulo 2^64.
    private let inverse: UInt64
    /// R², with R = 2^(64 · count).
    private let square: [UInt64]

    init(modulus: [UInt64]) {
        self.modulus = modulus
        let lowest = modulus.first ?? 1
        // Each step of Newton's iteration doubles the correct bits. An odd number is its own inverse modulo 8.
        var inverse = lowest
        for _ in 0..<5 { inverse = inverse &* (2 &- lowest &* inverse) }
        self.inverse = 0 &- inverse
        var square = [UInt64](repeating: 0, count: modulus.count)
        square[0] = 1
        for _ in 0..<(128 * modulus.count) { square = Self.sum(square, square, modulo: modulus) }
        self.square = square
    }

    /// Returns a · b modulo the modulus.
    func product(_ a: [UInt64], _ b: [UInt64]) -> [UInt64] { multiplied(multiplied(a, square), b) }

    /// Returns `value`, which has the length of the modulus, reduced below the modulus.
    func reduced(_ value: [UInt64]) -> [UInt64] { multiplied(multiplied(value, square), one) }

    /// Returns `value`, which has twice the length of the modulus, reduced below the modulus.
    func reducedWide(_ value: [UInt64]) -> [UInt64] {
        let low = Array(value.prefix(modulus.count))
        let high = Array(value.dropFirst(modulus.count))
        return Self.sum(multiplied(high, square), reduced(low), modulo: modulus)
    }

    func difference(_ a: [UInt64], _ b: [UInt64]) -> [UInt64] {
        let (result, borrows) = subtract(b, from: a)
        return borrows ? add(result, modulus).sum : result
    }

    /// Returns base^exponent modulo the modulus. The exponent begins with its highest byte.
    func power(_ base: [UInt64], _ exponent: [UInt8]) -> [UInt64] {
        let factor = multiplied(base, square)
        var result = multiplied(one, square)
        for byte in exponent {
            for bit in (0..<8).reversed() {
                result = multiplied(result, result)
                if byte >> UInt8(bit) & 1 == 1 { result = multiplied(result, factor) }
            }
        }
        return multiplied(result, one)
    }

    private var one: [UInt64] { [1] + [UInt64](repeating: 0, count: modulus.count - 1) }

    private static func sum(_ a: [UInt64], _ b: [UInt64], modulo modulus: [UInt64]) -> [UInt64] {
        let (result, carries) = add(a, b)
        let (less, borrows) = subtract(modulus, from: result)
        return carries || !borrows ? less : result
    }

    /// Returns a · b / R modulo the modulus, where `a` is below R and `b` is below the modulus.
    private func multiplied(_ a: [UInt64], _ b: [UInt64]) -> [UInt64] {
        let count = modulus.count
        var result = [UInt64](repeating: 0, count: count + 2)
        for i in 0..<count {
            accumulate(b, times: a[i], in: &result)
            accumulate(modulus, times: result[0] &* inverse, in: &result)
            for j in 0...count { result[j] = result[j + 1] }
            result[count + 1] = 0
        }
        let value = Array(result.prefix(count))
        let (less, borrows) = subtract(modulus, from: value)
        return result[count] > 0 || !borrows ? less : value
    }
}

/// Adds `value` · `factor` to `result`, which has room for the carry.
private func accumulate(_ value: [UInt64], times factor: UInt64, in result: inout [UInt64], at offset: Int = 0) {
    var carry: UInt64 = 0
    for index in value.indices {
        let product = value[index].multipliedFullWidth(by: factor)
        let (partial, overflows) = product.low.addingReportingOverflow(carry)
        let (sum, overflowsAgain) = result[index + offset].addingReportingOverflow(partial)
        result[index + offset] = sum
        // This can't overflow, because (2^64 - 1)² + 2 · (2^64 - 1) is 2^128 - 1.
        carry = product.high &+ (overflows ? 1 : 0) &+ (overflowsAgain ? 1 : 0)
    }
    var index = value.count + offset
    while carry > 0, index < result.count {
        let (sum, overflows) = result[index].addingReportingOverflow(carry)
        result[index] = sum
        carry = overflows ? 1 : 0
        index += 1
    }
}

private func times(_ a: [UInt64], _ b: [UInt64]) -> [UInt64] {
    var result = [UInt64](repeating: 0, count: a.count + b.count)
    for index in a.indices { accumulate(b, times: a[index], in: &result, at: index) }
    return result
}

/// Returns the sum of a shorter number and a longer number, which has room for the carry.
private func sum(_ short: [UInt64], _ long: [UInt64]) -> [UInt64] {
    var result = long
    accumulate(short, times: 1, in: &result)
    return result
}

private func add(_ a: [UInt64], _ b: [UInt64]) -> (sum: [UInt64], carries: Bool) {
    var result = a + [0]
    accumulate(b, times: 1, in: &result)
    let carries = result.removeLast() > 0
    return (result, carries)
}

private func subtract(_ b: [UInt64], from a: [UInt64]) -> (difference: [UInt64], borrows: Bool) {
    var result = a
    var borrow: UInt64 = 0
    for index in a.indices {
        let (partial, overflows) = a[index].subtractingReportingOverflow(b[index])
        let (difference, overflowsAgain) = partial.subtractingReportingOverflow(borrow)
        result[index] = difference
        borrow = overflows || overflowsAgain ? 1 : 0
    }
    return (result, borrow == 1)
}

/// Returns a number as words, beginning with the lowest one. `bytes` begins with the highest byte.
private func limbs(_ bytes: [UInt8]) -> [UInt64] {
    let digits = Array(bytes.reversed())
    return stride(from: 0, to: digits.count, by: 8).map { start in
        digits[start..<min(start + 8, digits.count)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}

private func bytes(_ limbs: [UInt64], count: Int) -> [UInt8] {
    (0..<count).reversed().map { UInt8(truncatingIfNeeded: limbs[$0 / 8] >> UInt64($0 % 8 * 8)) }
}

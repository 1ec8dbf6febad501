public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The behaviour of every ``SignInCryptography``, as a list of cases that any testing framework can run.
///
/// ```swift
/// @Test(arguments: SignInCryptographyContract.cases)
/// func keepsTheContract(_ demand: SignInCryptographyContract.Case) throws {
///     try demand.run(MyCryptography())
/// }
/// ```
public enum SignInCryptographyContract {
    /// One requirement for the cryptography.
    public struct Case: Sendable, CustomStringConvertible {
        /// The requirement as a fact: `one other bit is wrong`.
        public let name: String
        let check: @Sendable (_ cryptography: any SignInCryptography) throws -> Void

        /// Runs the case with an implementation.
        ///
        /// - Throws: ``ContractViolation`` if the requirement is not met, and any error that should not have been
        ///   thrown.
        public func run(_ cryptography: any SignInCryptography) throws { try check(cryptography) }

        /// The name.
        public var description: String { name }
    }

    /// Every case.
    public static let cases: [Case] = [
        Case(name: "the digest is SHA-256") { cryptography in
            // The example of FIPS 180-4.
            let digest = try cryptography.sha256(Array("abc".utf8))
            let expected = Base64URL.decode("ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0")
            try require(digest == expected, "The digest of 'abc' is \(digest).")
        },
        Case(name: "the signature of RFC 7515, A.2, is right") { cryptography in
            try expect(true, cryptography, signature)
            // Some issuers write a number with its sign, which RFC 7518, 6.3.1.1, forbids.
            try expect(true, cryptography, signature, modulus: [0] + modulus, exponent: [0] + exponent)
        },
        Case(name: "one other bit anywhere is wrong") { cryptography in
            for index in stride(from: 0, to: signature.count, by: 5) {
                var forged = signature
                forged[index] ^= 1 << (index % 8)
                try expect(false, cryptography, forged)
                var key = modulus
                // The lowest bit stays, because the modulus is odd.
                key[index] ^= 2
                try expect(false, cryptography, signature, modulus: key)
            }
            for index in message.indices {
                var forged = message
                forged[index] ^= 1
                try expect(false, cryptography, signature, of: forged)
            }
            try expect(false, cryptography, signature, of: [])
            try expect(false, cryptography, signature, exponent: [3])
            try expect(false, cryptography, signature, exponent: [1, 0, 3])
        },
        Case(name: "a signature of another length is wrong") { cryptography in
            let wrong = [
                [], [0] + signature, signature + [0], Array(signature.dropLast()),
                [UInt8](repeating: 0, count: 256), [UInt8](repeating: 0xFF, count: 256),
                // 1 to any power is 1.
                [UInt8](repeating: 0, count: 255) + [1],
            ]
            for signature in wrong { try expect(false, cryptography, signature) }
        },
        Case(name: "a key that is none is wrong") { cryptography in
            for (modulus, exponent) in wrongKeys {
                try expect(false, cryptography, signature, modulus: modulus, exponent: exponent)
            }
        },
        Case(name: "a wrong signature under a key of 2048 to 8192 bits is no error") { cryptography in
            for count in [256, 257, 512, 1024] {
                let signature = [UInt8](repeating: 0x5A, count: count)
                let modulus = [UInt8](repeating: 0xFF, count: count)
                try expect(false, cryptography, signature, modulus: modulus)
            }
        },
    ]

    /// Keys that are too short, too long, even, or empty.
    static let wrongKeys: [(modulus: [UInt8], exponent: [UInt8])] = [
        ([], exponent), ([0], exponent), (modulus, []), (modulus, [0]), (modulus, [1]), (modulus, [2]),
        (modulus, [1, 0, 0]), (modulus.dropLast() + [0xA0], exponent), (Array(modulus.dropLast()), exponent),
        ([0x80] + [UInt8](repeating: 1, count: 1024), exponent),
        ([0x7F] + [UInt8](repeating: 0xFF, count: 255), exponent),
    ]

    /// The modulus of RFC 7515, A.2.
    private static let modulus =
        Base64URL.decode(
            """
            ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZ\
            S-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2\
            R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcD\
            TW9gb54h4FRWyuXpoQ
            """) ?? []
    private static let signature =
        Base64URL.decode(
            """
            cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU\
            Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_d\
            O--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0ig\
            cN_IoypGlUPQGe77Rw
            """) ?? []
    private static let message = Array(
        """
        eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ij\
        p0cnVlfQ
        """.utf8)
    private static let exponent: [UInt8] = [1, 0, 1]

    private static func expect(
        _ isRight: Bool, _ cryptography: any SignInCryptography, _ signature: [UInt8], of message: [UInt8] = message,
        modulus: [UInt8] = modulus, exponent: [UInt8] = exponent
    ) throws {
        let answer = try cryptography.verifiesRS256(signature, of: message, modulus: modulus, exponent: exponent)
        try require(
            answer == isRight,
            "A signature of \(signature.count) bytes with a modulus of \(modulus.count) bytes is \(answer).")
    }
}

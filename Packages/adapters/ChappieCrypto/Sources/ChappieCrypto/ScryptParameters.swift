/// The cost of deriving a key from a passphrase with scrypt (RFC 7914). The user pays it once in a process. A thief
/// pays it for each guess.
public struct ScryptParameters: Sendable, Hashable {
    /// The binary logarithm of the cost N: 1 to 20.
    public let costExponent: Int
    /// The block size r: 1 to 32.
    public let blockSize: Int
    /// The parallelism p: 1 to 16.
    public let parallelism: Int

    /// The default parameters, N = 2¹⁵, r = 8, p = 3, which take 32 MiB and about a quarter of a second. OWASP's
    /// Password Storage Cheat Sheet lists several equally strong settings. This one also fits on a small server.
    public static let `default` = ScryptParameters(unchecked: 15, blockSize: 8, parallelism: 3)

    /// Creates parameters. Returns `nil` if a parameter is outside its bounds, N is not below 2 to the power of 16 r
    /// (RFC 7914, section 6), or a key would take more than 256 MiB of memory or more than 2²³ (N · r · p, about three
    /// seconds) of work.
    public init?(costExponent: Int, blockSize: Int = 8, parallelism: Int = 1) {
        guard (1...20).contains(costExponent), (1...32).contains(blockSize), (1...16).contains(parallelism),
            costExponent < 16 * blockSize
        else { return nil }
        self.init(unchecked: costExponent, blockSize: blockSize, parallelism: parallelism)
        guard memory <= 256 << 20, work <= 1 << 23 else { return nil }
    }

    private init(unchecked costExponent: Int, blockSize: Int, parallelism: Int) {
        self.costExponent = costExponent
        self.blockSize = blockSize
        self.parallelism = parallelism
    }

    /// The cost N.
    var cost: Int { 1 << costExponent }
    /// The memory that the derivation of one key takes, in bytes: 128 · N · r.
    var memory: Int { 128 * cost * blockSize }
    /// The work for one key: N · r · p.
    var work: Int { cost * blockSize * parallelism }
    /// The memory limit for libcrypto, in bytes: the memory above, and some for its own use.
    var workspace: Int { memory + 128 * blockSize * (parallelism + 4) + (1 << 16) }

    /// Returns whether a guess costs a thief less work or less memory with these parameters than with `other`.
    func isWeaker(than other: ScryptParameters) -> Bool { work < other.work || memory < other.memory }
}

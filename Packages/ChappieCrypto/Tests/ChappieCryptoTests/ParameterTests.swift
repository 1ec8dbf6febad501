import ChappieAuth
import Testing

@testable import ChappieCrypto

struct ParameterTests {
    @Test(arguments: [
        (0, 8, 1), (21, 8, 1), (255, 8, 1), (-1, 8, 1), (15, 0, 1), (15, 33, 1), (15, 65535, 1), (15, 8, 0),
        (15, 8, 17), (15, 8, 65535), (15, -8, 1), (15, 8, -1),
        // N must be below 2 to the power of 16 r.
        (16, 1, 1), (20, 1, 1),
        // 256 MiB of memory, 2²³ of work.
        (19, 8, 1), (18, 32, 1), (18, 8, 5), (20, 2, 5),
    ])
    func parametersBeyondTheBoundsAreRefused(costExponent: Int, blockSize: Int, parallelism: Int) {
        #expect(ScryptParameters(costExponent: costExponent, blockSize: blockSize, parallelism: parallelism) == nil)
    }

    @Test(arguments: [(1, 1, 1), (15, 1, 1), (18, 8, 4), (16, 32, 4), (20, 2, 4), (15, 8, 16)])
    func parametersAtTheBoundsAreTaken(costExponent: Int, blockSize: Int, parallelism: Int) {
        #expect(ScryptParameters(costExponent: costExponent, blockSize: blockSize, parallelism: parallelism) != nil)
    }

    @Test func theDefaultIsWithinTheBoundsAndTakes32MiB() {
        let it = ScryptParameters.default
        #expect(
            ScryptParameters(costExponent: it.costExponent, blockSize: it.blockSize, parallelism: it.parallelism) == it)
        #expect(it.memory == 32 << 20)
    }

    @Test func weakerMeansLessWorkOrLessMemory() {
        let today = ScryptParameters.sample(10, 8, 2)
        #expect(!today.isWeaker(than: today))
        #expect(ScryptParameters.sample(10, 8, 1).isWeaker(than: today))
        #expect(ScryptParameters.sample(9, 8, 16).isWeaker(than: today))
        #expect(!ScryptParameters.sample(11, 8, 1).isWeaker(than: today))
    }

    @Test func theDefaultParametersWork() throws {
        let key = try CredentialKey(
            Secret("correct horse"), salt: [UInt8](repeating: 7, count: 16), parameters: .default)
        let again = try CredentialKey(
            Secret("correct horse"), salt: [UInt8](repeating: 7, count: 16), parameters: .default)
        #expect(key.encryption == again.encryption)
        #expect(key.check == again.check)
        #expect(Secret(key.check) != key.encryption)
    }

    @Test func theRingDerivesEachKeyOnceAndForgetsTheOldest() throws {
        let ring = KeyRing()
        for number in 0..<(KeyRing.limit + 4) {
            let salt = [UInt8](repeating: UInt8(number), count: 16)
            let one = try ring.key(for: Secret("a"), salt: salt, parameters: .cheap)
            let other = try ring.key(for: Secret("b"), salt: salt, parameters: .cheap)
            #expect(one.check != other.check)
        }
        #expect(ring.count == KeyRing.limit)
        ring.forgetAll()
        #expect(ring.count == 0)
    }
}

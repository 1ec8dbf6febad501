#if canImport(CryptoKit)
    import CryptoKit

    /// An implementation of scrypt (RFC 7914), which CryptoKit lacks. Words are in the machine's byte order, because
    /// every machine with CryptoKit is little-endian.
    ///
    /// Apps are debugged without optimisation, where a `for` loop takes longer than its body. For this reason the inner
    /// loops are `while` loops.
    struct Scrypt {
        private typealias Words = UnsafeMutablePointer<UInt32>

        private let parameters: ScryptParameters
        /// The number of words in a block.
        private let width: Int

        init(_ parameters: ScryptParameters) {
            self.parameters = parameters
            width = 32 * parameters.blockSize
        }

        /// Derives `count` bytes from a passphrase, which is the HMAC key (section 6).
        func bytes(_ count: Int, from passphrase: SymmetricKey, salt: [UInt8]) -> [UInt8] {
            let size = 4 * width
            var blocks = Self.expand(parameters.parallelism * size, from: passphrase, salt: salt)
            // The last block is used only as work space.
            let table = UnsafeMutableBufferPointer<UInt32>.allocate(capacity: (parameters.cost + 2) * width)
            defer {
                CryptoLibrary.wipe(&blocks)
                CryptoLibrary.wipe(UnsafeMutableRawBufferPointer(table))
                table.deallocate()
            }
            guard let rows = table.baseAddress else { return [] }
            let block = UnsafeMutableRawBufferPointer(start: rows + parameters.cost * width, count: size)
            for start in stride(from: 0, to: blocks.count, by: size) {
                block.copyBytes(from: blocks[start..<start + size])
                stir(rows)
                blocks.replaceSubrange(start..<start + size, with: block)
            }
            return Self.expand(count, from: passphrase, salt: blocks)
        }

        /// Computes PBKDF2-HMAC-SHA256 with one iteration (RFC 8018, section 5.2).
        private static func expand(_ count: Int, from key: SymmetricKey, salt: [UInt8]) -> [UInt8] {
            var bytes: [UInt8] = []
            // Growing the array would leave copies behind.
            bytes.reserveCapacity(count + CryptoLibrary.digestCount)
            var number = 1
            while bytes.count < count {
                var message = salt
                message.append(number, count: 4)
                bytes += HMAC<SHA256>.authenticationCode(for: message, using: key)
                // In the second call, the salt is the result of the work, which is as secret as the key.
                CryptoLibrary.wipe(&message)
                number += 1
            }
            bytes.removeLast(bytes.count - count)
            return bytes
        }

        /// Runs scryptROMix (section 5) on the block after the N `rows`.
        private func stir(_ rows: Words) {
            let cost = parameters.cost
            var block = rows + cost * width
            var next = block + width
            rows.update(from: block, count: width)
            var row = rows
            while row < block {
                mix(row, into: row + width)
                row += width
            }
            // N is even, so the last output is in the place of the input.
            for _ in 0..<cost {
                let row = Int(block[width - 16]) & (cost - 1)
                Self.add(rows + row * width, to: block, count: width)
                mix(block, into: next)
                swap(&block, &next)
            }
        }

        /// Runs scryptBlockMix (section 4).
        private func mix(_ input: Words, into output: Words) {
            withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 16) { buffer in
                guard let words = buffer.baseAddress else { return }
                words.update(from: input + width - 16, count: 16)
                let half = parameters.blockSize
                var index = 0
                while index < 2 * half {
                    Self.add(input + 16 * index, to: words, count: 16)
                    Self.salsa(words)
                    // The even parts precede the odd parts.
                    (output + 16 * (index / 2 + index % 2 * half)).update(from: words, count: 16)
                    index += 1
                }
            }
        }

        @inline(__always)
        private static func add(_ other: Words, to words: Words, count: Int) {
            var index = 0
            while index < count {
                words[index] ^= other[index]
                index += 1
            }
        }

        /// Runs the Salsa20/8 core (section 3).
        private static func salsa(_ words: Words) {
            withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 16) { buffer in
                guard let x = buffer.baseAddress else { return }
                x.update(from: words, count: 16)
                var round = 0
                while round < 8 {
                    turn(x, 0, 4, 8, 12)
                    turn(x, 5, 9, 13, 1)
                    turn(x, 10, 14, 2, 6)
                    turn(x, 15, 3, 7, 11)
                    turn(x, 0, 1, 2, 3)
                    turn(x, 5, 6, 7, 4)
                    turn(x, 10, 11, 8, 9)
                    turn(x, 15, 12, 13, 14)
                    round += 2
                }
                var index = 0
                while index < 16 {
                    words[index] &+= x[index]
                    index += 1
                }
            }
        }

        @inline(__always)
        private static func turn(_ x: Words, _ a: Int, _ b: Int, _ c: Int, _ d: Int) {
            x[b] ^= rotated(x[a] &+ x[d], by: 7)
            x[c] ^= rotated(x[b] &+ x[a], by: 9)
            x[d] ^= rotated(x[c] &+ x[b], by: 13)
            x[a] ^= rotated(x[d] &+ x[c], by: 18)
        }

        @inline(__always)
        private static func rotated(_ word: UInt32, by count: UInt32) -> UInt32 {
            word &<< count | word &>> (32 &- count)
        }
    }
#endif

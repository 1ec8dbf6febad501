/// An index of texts for searches by words. It ranks by Okapi BM25 (Robertson and Zaragoza, "The Probabilistic
/// Relevance Framework", 2009, section 3.3).
struct ToolIndex: Sendable {
    private struct Posting: Sendable {
        let text: Int
        let count: Double
    }

    private var postings: [String: [Posting]] = [:]
    private var lengths: [Double] = []
    private let averageLength: Double

    /// The usual parameters: how fast repetitions of a word lose weight, and how much the length of a text counts.
    private static let saturation = 1.2
    private static let lengthWeight = 0.75

    init(_ texts: [String]) {
        for (index, text) in texts.enumerated() {
            let words = Self.words(of: text)
            lengths.append(Double(words.count))
            let counts = words.reduce(into: [:]) { $0[$1, default: 0.0] += 1 }
            for (word, count) in counts { postings[word, default: []].append(Posting(text: index, count: count)) }
        }
        averageLength = max(lengths.reduce(0, +) / Double(max(lengths.count, 1)), 1)
    }

    /// Returns the indices of the texts that fit `query` best, beginning with the best. Texts that fit equally well are in
    /// the order of the index. A text without any word of the query is left out.
    func best(_ limit: Int, for query: String) -> [Int] {
        var scores: [Int: Double] = [:]
        var seen: Set<String> = []
        for word in Self.words(of: query) where seen.insert(word).inserted {
            let found = postings[word] ?? []
            let rest = Double(lengths.count - found.count)
            let rarity = (1 + (rest + 0.5) / (Double(found.count) + 0.5)).naturalLogarithm
            for posting in found {
                let length = 1 - Self.lengthWeight + Self.lengthWeight * lengths[posting.text] / averageLength
                let frequency = posting.count * (Self.saturation + 1) / (posting.count + Self.saturation * length)
                scores[posting.text, default: 0] += rarity * frequency
            }
        }
        let ranked = scores.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        return ranked.prefix(limit).map(\.key)
    }

    /// Returns the words of a text in lower case, without the ending of an English plural. The parts of names such as
    /// `send_mail` and `sendMail` are separate words.
    static func words(of text: String) -> [String] {
        var words: [String] = []
        var word = ""
        var isLower = false
        func end() {
            guard !word.isEmpty else { return }
            let isPlural = word.utf8.count > 3 && word.hasSuffix("s") && !word.hasSuffix("ss")
            words.append(isPlural ? String(word.dropLast()) : word)
            word = ""
        }
        for character in text {
            let isPart = character.isLetter || character.isNumber
            if !isPart || isLower && character.isUppercase { end() }
            if isPart { word += character.lowercased() }
            isLower = character.isLowercase
        }
        end()
        return words
    }
}

extension Double {
    /// The natural logarithm of a positive number. The C library's function is not available in this module.
    fileprivate var naturalLogarithm: Double {
        // ln s = 2 artanh t with t = (s - 1) / (s + 1). The significand s is below 2, so t is below 1/3.
        let t = (significand - 1) / (significand + 1)
        var power = t
        var sum = 0.0
        for odd in stride(from: 1.0, through: 25, by: 2) {
            sum += power / odd
            power *= t * t
        }
        return 2 * sum + Double(exponent) * 0.693_147_180_559_945_3
    }
}

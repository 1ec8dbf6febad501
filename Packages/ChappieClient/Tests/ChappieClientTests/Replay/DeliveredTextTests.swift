import Testing

@testable import ChappieClient

@Suite struct DeliveredTextTests {
    private static let answer = "Größe: 10 €, 👩‍👩‍👧 e\u{301}nd"

    @Test func everyCutAndEveryCuttingOfTheReplayGivesTheSameText() {
        let scalars = Array(Self.answer.unicodeScalars)
        func text(_ range: Range<Int>) -> String {
            var view = String.UnicodeScalarView()
            view.append(contentsOf: scalars[range])
            return String(view)
        }
        for cut in 0...scalars.count {
            for size in 1...scalars.count {
                var delivered = DeliveredText()
                var shown = delivered.said(text(0..<cut)) ?? "?"
                delivered.attemptBegan()
                var position = 0
                while position < scalars.count {
                    let end = min(position + size, scalars.count)
                    shown += delivered.said(text(position..<end)) ?? "?"
                    position = end
                }
                #expect(Array(shown.utf8) == Array(Self.answer.utf8), "cut at \(cut), pieces of \(size)")
                #expect(delivered.isCaughtUp)
            }
        }
    }

    @Test func anotherTextIsFoundOutAndNotTakenIn() {
        var delivered = DeliveredText()
        _ = delivered.said("Hello, world")
        delivered.attemptBegan()
        #expect(delivered.said("Hello") == "")
        #expect(delivered.said(", moon") == nil)
        #expect(delivered.text == "Hello, world")
    }

    @Test func aPieceThatDiffersOnlyBeyondTheOldTextIsNew() {
        var delivered = DeliveredText()
        _ = delivered.said("Hello")
        delivered.attemptBegan()
        #expect(delivered.said("Hello there") == " there")
        #expect(delivered.text == "Hello there")
    }

    @Test func aShorterReplayIsNotCaughtUp() {
        var delivered = DeliveredText()
        _ = delivered.said("Hello")
        delivered.attemptBegan()
        _ = delivered.said("Hell")
        #expect(!delivered.isCaughtUp)
    }

    @Test func canonicallyEqualIsNotTheSame() {
        var delivered = DeliveredText()
        _ = delivered.said("\u{e9}")
        delivered.attemptBegan()
        #expect(delivered.said("e\u{301}") == nil)
    }
}

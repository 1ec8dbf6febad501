import ChappieMarkdown
import Testing

@Suite struct CodeBlockTests {
    @Test(
        "the first fenced block",
        arguments: [
            ("Here:\n\n```swift\nlet a = 1\n\n  let b\n```\ntext\n```\nother\n```\n", "let a = 1\n\n  let b\n"),
            ("~~~\na\n```\n~~~", "a\n```\n"), ("````\n```\na\n```\n````", "```\na\n```\n"), ("```\na", "a\n"),
            ("```\na\n", "a\n"), ("```\n```", ""), ("```", ""), ("  ```\n  a\n b\n    c\n ```  \nd", "a\nb\n  c\n"),
            ("```a`b\nx\n```\ny", "y\n"), ("~~~ a`b\nx\n~~~", "x\n"), ("```\r\na\r\n```\r\n", "a\n"),
            ("```\na\n``\n``` b\n````", "a\n``\n``` b\n"), ("1. Do:\n\n   ```sh\n   ls\n   ```\n", "ls\n"),
            ("- a\n  - b\n\n    ```\n    x\n      y\n    ```", "x\n  y\n"), ("- ```\n  a\n  ```\n- b", "a\n"),
            ("10) a\n\n    ```\n    x\n    ```", "x\n"), ("- a\n\n```\nx\n```", "x\n"),
        ])
    func isFound(_ text: String, _ block: String) { #expect(CodeBlock.first(in: text) == block) }

    @Test(
        "texts without one",
        arguments: [
            "", "text", "``\na\n``", "`code` and ```more```", "    ```\n    indented\n    ```", "a ```\nb\n```c`",
            "\t```\n\tindented",
        ])
    func isMissed(_ text: String) { #expect(CodeBlock.first(in: text) == nil) }

    /// Each list item of a line is read from the line's start, so there is a bound.
    @Test(arguments: [(1, true), (99, true), (101, false), (20_000, false)])
    func aLineHasSoManyListItems(count: Int, isFound: Bool) {
        let text = String(repeating: "+ ", count: count) + "```\nx\n```"
        #expect((CodeBlock.first(in: text) == "x\n") == isFound)
    }
}

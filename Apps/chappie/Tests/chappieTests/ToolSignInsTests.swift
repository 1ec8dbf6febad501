import ChappieAuth
import ChappieMCP
import ChappieProgramTools
import ChappieSDK
import ChappieSimulator
import FoundationEssentials
import Testing

@testable import chappie

@Suite struct ToolSignInsTests {
    private func signIns(account: String? = nil) throws -> ToolSignIns {
        ToolSignIns(
            account: account ?? "default",
            store: LocalCredentialStore(ChappieEphemeralCredentialStore(), lock: NoCredentialLock()),
            transport: try InMemorySimulator(SimulatorConfiguration()).transport, usualManifests: ["/etc/tools.json"],
            namedAccount: account)
    }

    @Test(
        arguments: [
            ("docs", "/etc/tools.json", nil, "chappie tools login docs"),
            ("docs", "t.json", nil, "chappie tools login docs --tools t.json"),
            ("docs", "my tools/$x'y.json", nil, #"chappie tools login docs --tools 'my tools/$x'\''y.json'"#),
            ("docs", "/etc/tools.json", "a b", "chappie tools login docs --account 'a b'"),
        ] as [(String, String, String?, String)])
    func theCommandCanBeTypedAsItIsShown(server: String, manifest: String, account: String?, text: String) throws {
        #expect(try signIns(account: account).command(signingInAt: server, in: manifest).text == text)
    }

    @Test func `only an error that a sign-in resolves names the command`() {
        let command = ToolSignInCommand(text: "chappie tools login docs")
        func reason(_ code: ChappieMCPError.Code) -> String {
            command.naming(ChappieMCPError(code, server: "docs", reason: "x")).reason
        }
        #expect(reason(.signInNeeded) == "x; run `chappie tools login docs`")
        #expect(reason(.permissionNeeded) == "x; run `chappie tools login docs --scope …` with their names")
        #expect(reason(.ended) == "x" && reason(.signInFailed) == "x")
    }

    @Test func aServerWithATokenAndAProgramTakeNoSignIn() throws {
        let url = try #require(URL(string: "https://a.example/mcp"))
        let signIns = try signIns()
        let far = ChappieToolManifest.Server(name: "a", url: url)
        #expect(signIns.authorization(at: far)?.slot.issuer == "https://a.example/mcp")
        #expect(signIns.authorization(at: far)?.slot.service == "com.chappie.tools")
        let withToken = ChappieToolManifest.Server(name: "a", url: url, headers: ["AUTHORIZATION": "Bearer x"])
        #expect(signIns.authorization(at: withToken) == nil)
        #expect(signIns.authorization(at: ChappieToolManifest.Server(name: "a", command: ["sh"])) == nil)
    }
}

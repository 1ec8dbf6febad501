@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@testable import ChappieMCP

struct OAuthMetadataTests {
    @Test(
        arguments: [
            (["Bearer"], nil, nil, nil),
            ([#"Bearer resource_metadata="https://a/m", scope="read write""#], "https://a/m", ["read", "write"], nil),
            ([#"bearer realm=x , Scope = "read read" ,error=invalid_token"#], nil, ["read"], "invalid_token"),
            ([#"Basic realm="x, Bearer scope=no", Bearer scope="yes", Digest scope="no""#], nil, ["yes"], nil),
            (["Negotiate abc==", "Bearer error=\"in\\\"s\""], nil, nil, "in\"s"),
            ([#"Bearer scope="", scope="late""#], nil, [], nil),
            ([#"Bearer resource_metadata="open"#], "open", nil, nil),
            (["Basic realm=x"], nil, nil, nil), (["===,,,\"\"\""], nil, nil, nil), ([""], nil, nil, nil),
            (["Bearer scope=\"\u{FC}ber a\\\\b ok\""], nil, ["ok"], nil),
            (["Bearer scope=\"" + String(repeating: "x", count: 20_000) + "\""], nil, nil, nil),
        ] as [([String], String?, [String]?, String?)])
    func aChallengeIsReadWhateverStandsBesideIt(
        values: [String], metadata: String?, scopes: [String]?, error: String?
    ) {
        var fields = HTTPFields()
        fields[values: .wwwAuthenticate] = values
        let challenge = OAuthChallenge(fields)
        #expect(challenge.resourceMetadata == metadata && challenge.error == error, "\(challenge)")
        #expect(challenge.scopes == scopes, "\(challenge)")
    }

    @Test func `a challenge of many parts costs time in proportion to its length`() {
        let value = String(repeating: "a=b,", count: 4000) + "Bearer scope=\"x\""
        #expect(OAuthChallenge([.wwwAuthenticate: value]).scopes == ["x"])
    }

    @Test(
        arguments: [
            (
                "https://a.example/mcp?team=1",
                ["/.well-known/oauth-protected-resource/mcp?team=1", "/.well-known/oauth-protected-resource"]
            ),
            ("https://a.example/", ["/.well-known/oauth-protected-resource"]),
            ("https://a.example", ["/.well-known/oauth-protected-resource"]),
            (
                "https://a.example/x/y/",
                ["/.well-known/oauth-protected-resource/x/y", "/.well-known/oauth-protected-resource"]
            ),
        ])
    func theDescriptionOfAServerIsLookedForBelowItsPathAndAtTheRoot(server: String, paths: [String]) throws {
        let found = OAuthAddress.descriptions(of: try #require(URL(string: server)))
        #expect(found.map(\.absoluteString) == paths.map { "https://a.example" + $0 })
    }

    @Test(
        arguments: [
            (
                "https://b.example/tenant",
                [
                    "/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant",
                    "/tenant/.well-known/openid-configuration",
                ]
            ),
            ("https://b.example", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
            ("https://b.example/", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]),
        ])
    func anAuthorizationServerIsLookedForInBothStandardsForms(issuer: String, paths: [String]) throws {
        let found = OAuthAddress.descriptions(ofIssuer: try #require(URL(string: issuer)))
        #expect(found.map(\.absoluteString) == paths.map { "https://b.example" + $0 })
    }

    @Test(
        arguments: [
            ("https://b.example/x", true, true), ("http://b.example/x", false, false),
            ("http://127.0.0.1:8/x", false, true), ("http://localhost/x", false, true),
            ("https://127.0.0.1/x", false, true), ("https://[::1]/x", false, true),
            ("https://b.example/#x", false, false), ("https://user@b.example/", false, false),
            ("ftp://b.example/", false, false), ("file:///etc/passwd", false, false), ("", false, false),
            ("https://b.example/\u{202E}x", false, false), ("https://b.example/a b", false, false),
            ("javascript:alert(1)", false, false), ("https://b.example:99999/", false, false),
            ("https://b.example/" + String(repeating: "x", count: 3000), false, false),
        ])
    func anAddressNeedsTLSAndAServerElsewhereNamesNoneOfThisMachine(
        text: String, isUsableElsewhere: Bool, isUsableHere: Bool
    ) throws {
        let elsewhere = try #require(URL(string: "https://a.example/mcp").flatMap(Origin.init))
        let here = try #require(URL(string: "http://127.0.0.1:1/mcp").flatMap(Origin.init))
        #expect((OAuthAddress.usable(text, for: elsewhere) != nil) == isUsableElsewhere)
        #expect((OAuthAddress.usable(text, for: here) != nil) == isUsableHere)
    }

    @Test(
        arguments: [
            ("https://a.example/mcp", "https://a.example/anywhere", true),
            ("https://a.example/mcp/", "https://a.example/.well-known/oauth-protected-resource/mcp", true),
            // What covers more is described at its own place.
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource", true),
            ("https://a.example/", "https://A.example:443/.well-known/oauth-protected-resource/", true),
            ("https://a.example/t", "https://a.example/.well-known/oauth-protected-resource/t", true),
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource/t/mcp", false),
            ("https://a.example", "https://a.example/t/mcp/description", false),
            ("https://a.example", "https://b.example/.well-known/oauth-protected-resource", false),
            ("https://a.example/t", "https://a.example/.well-known/oauth-protected-resource", false),
            ("https://b.example", "https://b.example/.well-known/oauth-protected-resource", false),
        ])
    func `a description claims its server or what it is the description of`(
        resource: String, document: String, isTaken: Bool
    ) throws {
        let server = try #require(
            URL(
                string: resource.hasPrefix("https://a.example/mcp")
                    ? "https://a.example/mcp" : "https://a.example/t/mcp"))
        let claim = try #require(URL(string: resource))
        #expect(OAuthAddress.describes(claim, server, at: URL(string: document)) == isTaken)
    }

    @Test(
        arguments: [
            ("https://a.example/mcp", true), ("https://a.example", true), ("https://a.example/", true),
            ("https://A.example:443/mcp/", true), ("https://a.example/mc", false), ("https://a.example/mcp/x", false),
            ("https://a.example.evil/mcp", false), ("http://a.example/mcp", false), ("https://b.example/mcp", false),
            ("https://a.example:444/mcp", false), ("urn:x", false),
        ])
    func aTokenIsForThisServerOrWhatItsAddressLiesBelow(resource: String, covers: Bool) throws {
        let server = try #require(URL(string: "https://a.example/mcp"))
        #expect(OAuthAddress.covers(try #require(URL(string: resource)), server) == covers)
    }
}

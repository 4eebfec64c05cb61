package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func TestHandshake(t *testing.T) {
	tests := []struct {
		offered mcp.Version
		speaks  []mcp.Version
		want    mcp.Version // "" is an error that names what is supported
	}{
		{mcp.V2024_11_05, nil, mcp.V2024_11_05}, // LIFE-03
		{mcp.V2025_03_26, nil, mcp.V2025_03_26},
		{mcp.V2025_06_18, nil, mcp.V2025_06_18},
		{mcp.V2025_11_25, nil, mcp.V2025_11_25},
		{mcp.V2026_07_28, nil, mcp.V2025_11_25}, // LIFE-13
		{"2025-07-01", nil, mcp.V2025_11_25},    // LIFE-15: never "same or newer"
		{"1999-01-01", nil, mcp.V2025_11_25},
		{"nonsense", nil, mcp.V2025_11_25},
		{"", nil, mcp.V2025_11_25}, // LIFE-03: unknown like any other
		{mcp.V2025_11_25, []mcp.Version{mcp.V2025_06_18, mcp.V2024_11_05}, mcp.V2025_06_18},
		{mcp.V2025_11_25, []mcp.Version{mcp.V2026_07_28}, ""}, // MOD-10
	}
	for _, tt := range tests {
		t.Run(string(tt.offered), func(t *testing.T) {
			inBubble(t, &mcpserver.Options{Versions: tt.speaks, Instructions: "be kind"}, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
				line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, tt.offered)
				if tt.want == "" {
					e := p.expectError(line, mcp.CodeUnsupportedVersion, "1")
					if d, ok := e.UnsupportedVersion(); !ok || !slices.Equal(d.Supported, tt.speaks) {
						t.Errorf("data: got %s", e.Data)
					}
					return
				}
				p.version, p.check = tt.want, official(t, tt.want)
				p.expect(line, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"test","version":"1"},"instructions":"be kind"}}`, tt.want))
				p.expectError(line, mcp.CodeInvalidRequest, "1") // LIFE-10
			})
		})
	}
}

// LIFE-01: the version must be there.
func TestHandshakeWithoutVersion(t *testing.T) {
	for _, version := range []string{``, `"protocolVersion":null,`, `"protocolVersion":7,`} {
		inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
			p.expectError(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+version+`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, mcp.CodeInvalidParams, "1")
		})
	}
}

func TestLegacyRequests(t *testing.T) {
	eachVersion(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *gate) {
		if v.Era() != mcp.EraLegacy {
			return
		}
		p.expect(request(v, 1, "ping", "{}"), `{"jsonrpc":"2.0","id":1,"result":{}}`)                                              // PING-01
		p.expect(`{"jsonrpc":"2.0","id":"1","method":"ping"}`, `{"jsonrpc":"2.0","id":"1","result":{}}`)                           // BASE-02
		p.expect(`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`) // BASE-02
		p.expect(request(v, 2, "logging/setLevel", `{"level":"error"}`), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		p.expectError(request(v, 3, "logging/setLevel", `{"level":"loud"}`), mcp.CodeInvalidParams, "3") // LOG-03
		for _, method := range []string{"no/such", "resources/list", "prompts/get", "completion/complete", "server/discover", "tasks/get"} {
			p.expectError(request(v, 4, method, "{}"), mcp.CodeMethodNotFound, "4") // BASE-14
		}
		p.expectError(request(v, 5, "tools/list", `{"cursor":7}`), mcp.CodeInvalidParams, "5")
		p.send(`{"jsonrpc":"2.0","method":"notifications/no_such"}`) // BASE-09
		p.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		p.send(`{"jsonrpc":"2.0","id":99,"result":{}}`) // BASE-15
		p.send(`{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}`)
		p.silent()
	})
}

func TestBeforeInitialize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		p.expect(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)     // PING-01
		p.expectError(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, mcp.CodeInvalidRequest, "2")     // ERA-11
		p.expectError(`{"jsonrpc":"2.0","id":3,"method":"server/discover"}`, mcp.CodeInvalidParams, "3") // MOD-01
		p.expectError(`[{"jsonrpc":"2.0","id":4,"method":"ping"}]`, mcp.CodeInvalidRequest, "")          // BASE-23
		p.expectError(`{"jsonrpc":"2.0","id":5,"method":"initialize"}`, mcp.CodeInvalidParams, "5")      // LIFE-01
		p.expectError(`{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":7}}`, mcp.CodeInvalidParams, "6")
		p.initialize(mcp.V2025_11_25)
		p.expectError(call(mcp.V2025_11_25, 7, "nothing", "{}"), mcp.CodeInvalidParams, "7")
	})
}

func TestModernRequests(t *testing.T) {
	const version, caps = `"io.modelcontextprotocol/protocolVersion"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	tests := []struct {
		name, method, meta string
		code               int64 // 0 is success
	}{
		{"discover", "server/discover", version + `:"2026-07-28",` + caps, 0},
		{"tools", "tools/list", version + `:"2026-07-28",` + caps, 0},
		{"no capabilities", "tools/list", version + `:"2026-07-28"`, mcp.CodeInvalidParams}, // MOD-01
		{"capabilities of another type", "tools/list", version + `:"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]`, mcp.CodeInvalidParams},
		{"version of another type", "tools/list", version + `:20260728,` + caps, mcp.CodeInvalidParams},
		{"unknown version", "server/discover", version + `:"2030-01-01",` + caps, mcp.CodeUnsupportedVersion}, // MOD-02
		{"version before anything else", "no/such", version + `:"2030-01-01"`, mcp.CodeUnsupportedVersion},
		{"a legacy version", "tools/list", version + `:"2025-11-25",` + caps, mcp.CodeUnsupportedVersion},
		{"log level", "tools/list", version + `:"2026-07-28",` + caps + `,"io.modelcontextprotocol/logLevel":"loud"`, mcp.CodeInvalidParams}, // LOG-05
		{"ping", "ping", version + `:"2026-07-28",` + caps, mcp.CodeMethodNotFound},                                                          // MOD-09
		{"initialize", "initialize", version + `:"2026-07-28",` + caps, mcp.CodeMethodNotFound},
		{"setLevel", "logging/setLevel", version + `:"2026-07-28",` + caps, mcp.CodeMethodNotFound},
		{"not offered", "prompts/list", version + `:"2026-07-28",` + caps, mcp.CodeMethodNotFound}, // CAP-07
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
				p.modern()
				line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{%s}}}`, tt.method, tt.meta)
				if tt.code != 0 {
					e := p.expectError(line, tt.code, "1")
					if d, ok := e.UnsupportedVersion(); tt.code == mcp.CodeUnsupportedVersion && (!ok || !slices.Equal(d.Supported, mcp.Versions())) {
						t.Errorf("data: got %s, want all versions (ERA-13)", e.Data)
					}
					return
				}
				var got struct {
					Result struct {
						ResultType string
						Meta       mcp.Meta `json:"_meta"`
						TTLMs      *int64
						CacheScope string
						Supported  []mcp.Version `json:"supportedVersions"`
					}
				}
				if err := json.Unmarshal([]byte(p.ask(line)), &got); err != nil {
					t.Fatal(err)
				}
				r := got.Result
				if r.ResultType != "complete" || r.Meta.ServerInfo() == nil || r.TTLMs == nil || r.CacheScope != "public" { // BASE-10, META-06
					t.Errorf("result: got %+v", r)
				}
				if tt.method == "server/discover" && !slices.Equal(r.Supported, mcp.Versions()) { // MOD-04
					t.Errorf("supportedVersions: got %v", r.Supported)
				}
			})
		})
	}
}

// ERA-10, ERA-11, BASE-18: one pipe, both eras, in any order.
func TestErasOnOnePipe(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		who := func(v mcp.Version, id int, want mcp.Version) {
			t.Helper()
			var got struct{ Result mcp.CallToolResult }
			answer := p.ask(call(v, id, "who", `{}`))
			if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Result.Content) != 1 {
				t.Fatalf("who: got %s, %v", answer, err)
			}
			var c struct{ Version mcp.Version }
			if err := json.Unmarshal([]byte(got.Result.Content.Text()), &c); err != nil || c.Version != want {
				t.Errorf("who: got %s, want %s", got.Result.Content.Text(), want)
			}
		}
		who(mcp.V2026_07_28, 1, mcp.V2026_07_28)
		p.expectError(call(mcp.V2025_06_18, 2, "who", "{}"), mcp.CodeInvalidRequest, "2")
		p.initialize(mcp.V2025_06_18)
		who(mcp.V2025_06_18, 3, mcp.V2025_06_18)
		p.modern()
		who(mcp.V2026_07_28, 4, mcp.V2026_07_28)
		p.version, p.check = mcp.V2025_06_18, official(t, mcp.V2025_06_18)
		who(mcp.V2025_06_18, 5, mcp.V2025_06_18)
	})
}

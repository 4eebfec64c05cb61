package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
)

// corpus is what a bad client says. %META% is what a request of 2026-07-28 has in _meta,
// and nothing in legacy sessions. Only a lenient decoder calls the tool smuggled, or
// hands the text SMUGGLED to another.
var corpus = sync.OnceValue(makeCorpus)

func makeCorpus() []string {
	const (
		params = `{"name":"smuggled","arguments":{},"_meta":{%META%"x":1}}`
		echo   = `{"name":"echo","arguments":{"text":"x"},"_meta":{%META%"x":1}}`
		before = `{"jsonrpc":"2.0","id":9001,`
		smug   = `"method":"tools/call","params":` + params
	)
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	deepObject := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	long := strings.Repeat("x", 1<<20)
	echoWith := func(arguments string) string {
		return before + `"method":"tools/call","params":{"name":"echo","arguments":` + arguments + `,"_meta":{%META%"x":1}}}`
	}
	all := []string{
		// No JSON, or no message.
		`garbage`, `{`, `[`, `]`, `}`, `null`, `true`, `123`, `"x"`, `{}`, `[]`, `[[]]`, `[1,2]`, `[null]`, `{"jsonrpc":"2.0"}`, "\x00", "\xef\xbb\xbf{}", " ", "\t\r",
		before + smug + `} {}`, before + smug, before + smug + `}}`, before + "\"x\":\"\xff\"," + smug + `}`, before + `"x":"\ud800",` + smug + `}`, before + `"x":NaN,` + smug + `}`,
		before + smug + `,}`, `{'jsonrpc':'2.0','id':1,'method':'ping'}`, before + `/**/` + smug + `}`, before + smug + `}` + before + smug + `}`, `{"jsonrpc":"2.0","id":9001,"x":01,` + smug + `}`,
		before + "\"x\":\"\x01\"," + smug + `}`, "GET / HTTP/1.1\r", "Content-Length: 5\r",
		// SECA-4: keys.
		before + `"method":"tools/list","Method":"tools/call","params":` + params + `}`, before + `"method":"tools/list",` + smug + `}`,
		before + smug + `,"method":"tools/list"}`, before + `"Method":"tools/call","params":` + params + `}`, before + `"METHOD":"tools/call","PARAMS":` + params + `}`,
		before + `"method":"tools/list","m\u0065thod":"tools/call","params":` + params + `}`, before + `"method\u0000":"tools/call","params":` + params + `}`,
		before + `"method":"tools/call","params":` + echo + `,"Params":` + params + `}`, before + `"method":"tools/call","params":` + echo + `,"params":` + params + `}`,
		before + `"method":"tools/call","param` + "\u017f" + `":` + params + `}`, before + `"method":"tools/call","params\u0000":` + params + `}`,
		before + `"method":"tools/call","params":` + echo + `,"param` + "\u017f" + `":` + params + `}`, before + `"id":9002,` + smug + `}`,
		`{"jsonrpc":"2.0","jsonrpc":"2.0","id":9001,` + smug + `}`, `{"jsonrpc":"2.0","ID":9001,"id":{},` + smug + `}`,
		before + `"method":"tools/call","params":{"name":"echo","name":"smuggled","arguments":{},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"echo","n\u0061me":"smuggled","arguments":{},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"Name":"smuggled","arguments":{},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"echo","Name":"smuggled","NAME":"smuggled","arguments":{"text":"x"},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"smuggled ","arguments":{},"_meta":{%META%"x":1}}}`, before + `"method":"tools/call","params":{"name":"Smuggled","arguments":{},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"smuggled\u0000","arguments":{},"_meta":{%META%"x":1}}}`, before + `"method":"tools/call","params":{"name":["smuggled"],"arguments":{},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"smuggled","arguments":[],"_meta":{%META%"x":1}}}`, before + `"method":"tools/call","params":{"name":"smuggled","arguments":"{}","_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"smuggled","arguments":null,"arguments":{},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"smuggled","arguments":{},"_meta":{%META%"x":1},"_meta":{%META%"x":1}}}`,
		before + `"method":"tools/call","params":{"name":"smuggled","arguments":{},"_meta":{%META%"x":1,"x":2}}}`,
		before + `"method":"tools/call","params":[` + params + `]}`, before + `"method":["tools/call"],"params":` + params + `}`, before + `"method":"TOOLS/CALL","params":` + params + `}`,
		before + `"method":"tools/call ","params":` + params + `}`, before + `"method":"tools/call\u0000","params":` + params + `}`, before + `"method":"tools\/calL","params":` + params + `}`,
		echoWith(`{"text":"x","text":"SMUGGLED"}`), echoWith(`{"text":"x","t\u0065xt":"SMUGGLED"}`), echoWith(`{"Text":"SMUGGLED"}`), echoWith(`{"text":"x","TEXT":"SMUGGLED"}`),
		echoWith(`{"text\u0000":"SMUGGLED"}`), echoWith(`{"text":"x"},"arguments":{"text":"SMUGGLED"}`), echoWith(`{"text":"x"},"Arguments":{"text":"SMUGGLED"}`),
		echoWith(`{"text":["SMUGGLED"]}`), echoWith(`{"text":"x","n":1e999}`), echoWith(`{"text":"x","n":99999999999999999999999}`), echoWith(`{"text":"x","n":{"$ref":"file:///etc/passwd"}}`),
		echoWith(deep), echoWith(`{"text":` + deep + `}`), echoWith(`{"text":"x","y":` + deepObject + `}`),
		// Envelopes.
		`{"jsonrpc":"1.0","id":9001,` + smug + `}`, `{"id":9001,` + smug + `}`, `{"jsonrpc":2.0,"id":9001,` + smug + `}`, `{"jsonrpc":null,"id":9001,` + smug + `}`, `{"Jsonrpc":"2.0","id":9001,` + smug + `}`,
		before + smug + `,"result":{}}`, before + smug + `,"error":{"code":1,"message":"x"}}`, before + `"method":null,"params":` + params + `}`, before + `"method":"","params":` + params + `}`,
		before + `"method":5}`, before + `"method":"` + long + `"}`, before + `"params":` + params + `}`, before + `"method":"tools/call"}`, before + `"method":"tools/call","params":null}`,
		// ROB-4: ids.
		`{"jsonrpc":"2.0","id":1.5,` + smug + `}`, `{"jsonrpc":"2.0","id":1e400,` + smug + `}`, `{"jsonrpc":"2.0","id":null,` + smug + `}`, `{"jsonrpc":"2.0","id":{},` + smug + `}`,
		`{"jsonrpc":"2.0","id":[1],` + smug + `}`, `{"jsonrpc":"2.0","id":true,` + smug + `}`, `{"jsonrpc":"2.0","id":01,` + smug + `}`, `{"jsonrpc":"2.0","id":+1,` + smug + `}`,
		`{"jsonrpc":"2.0","id":"\ud800",` + smug + `}`, `{"jsonrpc":"2.0","id":"` + long + `","method":"ping"}`, `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 100_000) + `,"method":"ping"}`,
		// Depth.
		deep, deepObject, before + `"method":"ping","params":{"_meta":{%META%"x":` + deep + `}}}`, before + `"x":` + deepObject + `,` + smug + `}`,
		strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000), strings.Repeat(`[{"a":`, 50_000),
		// SECA-13: responses to nothing, and twice.
		before + `"result":{}}`, before + `"result":{}}`, before + `"error":{"code":1,"message":"x"}}`, before + `"result":{},"error":{"code":1,"message":"x"}}`, before + `"error":5}`, before + `"error":null}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, `{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":"` + long + `","result":{}}`,
		`{"jsonrpc":"2.0","id":9001,"result":` + deep + `}`, `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":5}}`, `{"jsonrpc":"2.0","id":"init","result":{}}`,
	}
	for _, method := range []string{
		"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "notifications/tasks/status",
		"notifications/message", "notifications/nothing", "", "tools/call", "initialize", "ping", "subscriptions/listen",
	} {
		for _, params := range []string{
			`null`, `[]`, `5`, `"x"`, `{}`, `{"requestId":null,"reason":5}`, `{"requestId":{}}`, `{"requestId":1.5}`, `{"requestId":"init"}`, `{"requestId":9001,"reason":"` + long + `"}`,
			`{"progressToken":{},"progress":"x"}`, `{"_meta":5}`, `{"name":"smuggled","arguments":{}}`, `{"requestId":1,"requestId":2}`,
		} {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
		}
	}
	for _, method := range []string{
		"initialize", "ping", "server/discover", "logging/setLevel", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "resources/subscribe",
		"resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
		"subscriptions/listen", "sampling/createMessage", "elicitation/create", "roots/list", "nothing", "__proto__", "rpc.discover",
	} {
		for _, params := range []string{
			`"cursor":5`, `"cursor":"x"`, `"cursor":"` + long[:5000] + `"`, `"cursor":null`, `"level":"loud"`, `"level":5`, `"name":5`, `"name":null`, `"name":"nothing"`, `"name":"` + long + `"`,
			`"name":"echo","arguments":5`, `"name":"echo","task":5`, `"name":"work","task":{"ttl":-1}`, `"name":"work","task":{"ttl":1e999}`, `"name":"hello","arguments":{"who":5}`, `"name":"hello","arguments":{"nobody":"x"}`,
			`"uri":5`, `"uri":""`, `"uri":"nothing"`, `"uri":"` + long + `"`, `"uri":"any://` + strings.Repeat("a/", 50_000) + `"`, `"uri":"file:///etc/passwd"`, `"uri":"test://one\u0000"`, `"uri":"%zz"`,
			`"ref":5`, `"ref":{"type":"x"}`, `"ref":{"type":"ref/prompt","name":"hello"}`, `"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":5}`,
			`"ref":{"type":"ref/resource","uri":"` + long + `"},"argument":{"name":"a","value":"x"}`, `"taskId":5`, `"taskId":"nothing"`, `"taskId":"../../x"`, `"taskId":"` + long + `"`, `"taskId":"x","inputResponses":5`,
			`"notifications":5`, `"notifications":{"resourceSubscriptions":5}`, `"notifications":{"taskIds":[5]}`, `"notifications":{"toolsListChanged":"x"}`, `"notifications":null`,
			`"protocolVersion":5`, `"protocolVersion":"2025-11-25","capabilities":5`, `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":5`,
			`"name":"greet","arguments":{},"requestState":5`, `"name":"greet","arguments":{},"requestState":"x"`, `"name":"greet","arguments":{},"inputResponses":5`, `"name":"greet","arguments":{},"inputResponses":{"name":5}`,
			`"name":"greet","arguments":{},"inputResponses":{"name":{"action":"accept","content":` + deepObject + `}}`, `"name":"greet","arguments":{},"inputResponses":` + deepObject,
		} {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":9001,"method":%q,"params":{%s,"_meta":{%%META%%"x":1}}}`, method, params))
		}
		for _, rest := range []string{
			`"params":null`, `"params":[]`, `"params":5`, `"params":{"_meta":5}`, `"params":{"_meta":{"progressToken":{}}}`, `"params":{"_meta":{%META%"progressToken":1.5}}`,
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":5}}`, `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`,
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":5}}`,
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/clientCapabilities":{}}}`,
		} {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":9001,"method":%q,%s}`, method, rest))
		}
	}
	// 2025-03-26 has batches; elsewhere they are bad.
	ping := `{"jsonrpc":"2.0","id":9001,"method":"ping"},`
	all = append(all,
		`[`+ping+`garbage]`, `[{"jsonrpc":"2.0","method":"notifications/progress","params":[]},{},5,null]`, `[`+strings.TrimSuffix(strings.Repeat(ping, 20_000), ",")+`]`,
		`[`+strings.Repeat(ping, 10), `[[`+strings.TrimSuffix(ping, ",")+`]]`, `[{"jsonrpc":"2.0","id":9001,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}]`,
	)
	return all
}

// TestCorpus attacks every surface with the corpus. Nothing of it ends or hangs the
// server, the next good message is answered in time, and what only a lenient decoder
// finds is not done.
//
// SECA-4, SECA-8, ROB-1, ROB-2, ROB-4
func TestCorpus(t *testing.T) {
	const whole = 1 // stdio, 2025-11-25
	everywhere(t, nil, func(t *testing.T, s surface, to *target) {
		p := connect(t, s, to, "")
		texts, n := corpus(), slices.Index(surfaces, s)
		for i, bad := range texts {
			if mcptest.Race && i%10 != n%10 || n != whole && i%8 != n%8 && i < len(texts)-6 {
				continue // it is the same decoder everywhere: a part will do
			}
			bad = strings.ReplaceAll(bad, "%META%", s.meta())
			if s.modern() && strings.Contains(bad, `"subscriptions/listen"`) && s.way == "web" {
				continue // it may be a good one, whose stream has no end: see TestListens
			}
			over := p.begin(bad)
			if !strings.Contains(bad, `"greet"`) && !strings.Contains(bad, `"work"`) { // they may wait for us
				select {
				case <-over:
				case <-afterPatience():
					t.Fatalf("%.200q: no answer", bad)
				}
			}
			id := p.id()
			p.say(p.call(id, "echo", `{"text":"good"}`))
			for {
				m := p.heard(mcptest.Patience)
				if strings.Contains(m.raw, "SMUGGLED") {
					t.Errorf("%.200q: got %.300s", bad, m.raw)
				}
				if m.code() == mcp.CodeInternal {
					t.Errorf("%.200q: got %.300s, want an error that says what is wrong", bad, m.raw)
				}
				if string(m.ID) == id && m.Method == "" {
					break
				}
			}
		}
		if got := p.callTool("count", `{}`).text(); got != "0" {
			t.Errorf("the smuggled tool has run %s times", got)
		}
	})
}

// TestIDs echoes ids as they are (ROB-4, BASE-03).
func TestIDs(t *testing.T) {
	everywhere(t, nil, func(t *testing.T, s surface, to *target) {
		p := connect(t, s, to, "")
		for _, id := range []string{`"1"`, `1`, `0`, `-1`, `""`, `"é"`, `9007199254740993`, `-9007199254740993`, `"a\"b"`, `"` + strings.Repeat("x", 1000) + `"`, `"init"`, `"null"`} {
			p.say(p.call(id, "echo", fmt.Sprintf(`{"text":%s}`, strconv.Quote("of "+id))))
			if m := p.heard(mcptest.Patience); string(m.ID) != id || m.text() != "of "+id {
				t.Errorf("id %s: got %.300s", id, m.raw)
			}
		}
	})
}

// TestStatusOfBadPosts wants a 4xx for each body that is no message, with an error that
// has no id of ours (SHL-17, SHM-12, BASE-08).
func TestStatusOfBadPosts(t *testing.T) {
	to := newTarget(t, nil)
	for _, s := range surfaces {
		if s.way != "web" {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			p := connect(t, s, to, "")
			for _, bad := range []string{``, ` `, `garbage`, `{`, `{}`, `null`, `5`, `"x"`, `[]`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`} {
				got, err := p.postOf(bad)
				if err != nil || got.status != http.StatusBadRequest || got.code() == 0 {
					t.Errorf("%q: got %d %.200s, %v, want 400 with an error", bad, got.status, got.body, err)
				}
				if !json.Valid([]byte(got.body)) {
					t.Errorf("%q: got %q, want JSON", bad, got.body)
				}
			}
		})
	}
}

package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestScanKinds(t *testing.T) {
	tests := []struct {
		frame string
		want  Message // Kind, ID, Method and ResultType only
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, Message{Kind: KindRequest, ID: IntID(1), Method: MethodCallTool}},
		{` {"id":"x","method":"own/thing","jsonrpc":"2.0"} `, Message{Kind: KindRequest, ID: StringID("x"), Method: "own/thing"}},
		{`{"jsonrpc":"2.0","\u006dethod":"pi\u006eg","id":-1}`, Message{Kind: KindRequest, ID: IntID(-1), Method: MethodPing}},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, Message{Kind: KindNotification, Method: NotificationInitialized}},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, Message{Kind: KindResult, ID: IntID(1)}},
		{`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`, Message{Kind: KindResult, ID: IntID(1), ResultType: ResultInputRequired}},
		{`{"jsonrpc":"2.0","id":1,"result":{"resultType":"odd"}}`, Message{Kind: KindResult, ID: IntID(1), ResultType: "odd"}},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}`, Message{Kind: KindError, ID: IntID(1)}},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`, Message{Kind: KindError}}, // BASE-08
		{`{"jsonrpc":"2.0","error":{"code":-1,"message":"m","data":null}}`, Message{Kind: KindError}},
	}
	for _, tt := range tests {
		var m Message
		if err := Scan([]byte(tt.frame), &m); err != nil {
			t.Errorf("Scan(%s): got error %v", tt.frame, err)
			continue
		}
		if m.Kind != tt.want.Kind || m.ID != tt.want.ID || m.Method != tt.want.Method || m.ResultType != tt.want.ResultType {
			t.Errorf("Scan(%s): got %v %v %q %q, want %v %v %q %q", tt.frame, m.Kind, m.ID, m.Method, m.ResultType,
				tt.want.Kind, tt.want.ID, tt.want.Method, tt.want.ResultType)
		}
	}
}

func TestScanParts(t *testing.T) {
	frame := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"name":"inner","_meta":{"progressToken":9}},` +
		`"name":"a\u0062","_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	var m Message
	if err := Scan([]byte(frame), &m); err != nil {
		t.Fatal(err)
	}
	if name, ok := m.NameString(); !ok || name != "ab" {
		t.Errorf("NameString: got %q, %v, want ab", name, ok)
	}
	if want := `{"name":"inner","_meta":{"progressToken":9}}`; string(m.Arguments) != want {
		t.Errorf("Arguments: got %s, want %s", m.Arguments, want)
	}
	if m.Progress != StringID("p") || !m.Modern || m.Version != V2026_07_28 {
		t.Errorf("_meta: got %v, %v, %q", m.Progress, m.Modern, m.Version)
	}
	// MOD-01: ill-typed, but named: the sender meant a modern request.
	frame = `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":5,"progressToken":1.5}}}`
	if err := Scan([]byte(frame), &m); err != nil {
		t.Fatal(err)
	}
	if !m.Modern || m.Version != "" || !m.Progress.IsZero() {
		t.Errorf("ill-typed _meta: got %v, %q, %v, want true, \"\", zero", m.Modern, m.Version, m.Progress)
	}
	if err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m","data":{"a":1}}}`), &m); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(m.Error, ErrResourceNotFound) || m.Error.Message != "m" || string(m.Error.Data) != `{"a":1}` {
		t.Errorf("Error: got %v", m.Error)
	}
}

// hostile are texts that strict JSON refuses (security.md 5.1, BASE-16).
var hostile = []struct{ name, frame string }{
	{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`},
	{"duplicate by escape", `{"jsonrpc":"2.0","id":1,"method":"tools/list","m\u0065thod":"tools/call"}`},
	{"duplicate in params", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","name":"b"}}`},
	{"duplicate in arguments", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"a":{"b":1,"b":1}}}}`},
	{"duplicate in an array", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[{"b":1,"b":1}]}}`},
	{"duplicate in _meta", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"a":1,"a":1}}}`},
	{"duplicate in result", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":1}}`},
	{"duplicate in error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","code":1}}`},
	{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xff\"}"},
	{"overlong UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xc0\xaf\"}"},
	{"surrogate in UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xed\xa0\x80\"}"},
	{"invalid UTF-8 in a name", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"\xff\":1}"},
	{"lone high surrogate", `{"jsonrpc":"2.0","id":1,"method":"a\ud800"}`},
	{"lone low surrogate", `{"jsonrpc":"2.0","id":1,"method":"a\udc00x"}`},
	{"high surrogate twice", `{"jsonrpc":"2.0","id":1,"method":"a\ud800\ud800"}`},
	{"second value", `{"jsonrpc":"2.0","id":1,"method":"a"}{"jsonrpc":"2.0","id":2,"method":"b"}`},
	{"garbage behind", `{"jsonrpc":"2.0","id":1,"method":"a"}x`},
	{"deep arrays", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}}`},
	{"deep objects, open", `{"jsonrpc":"2.0","id":1,"params":` + strings.Repeat(`{"a":`, 20000)},
	{"control character", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}"},
	{"byte order mark", "\ufeff{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}"},
	{"comment", `{"jsonrpc":"2.0",/**/"id":1,"method":"a"}`},
	{"trailing comma", `{"jsonrpc":"2.0","id":1,"method":"a",}`},
	{"trailing comma in array", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":[1,]}}`},
	{"single quotes", `{'jsonrpc':'2.0'}`},
	{"leading zero", `{"jsonrpc":"2.0","id":01,"method":"a"}`},
	{"plus", `{"jsonrpc":"2.0","id":+1,"method":"a"}`},
	{"bare point", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":1.}}`},
	{"bare exponent", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":1e}}`},
	{"NaN", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"a":NaN}}`},
	{"cut", `{"jsonrpc":"2.0","id":1,"method":"a`},
	{"cut escape", `{"jsonrpc":"2.0","id":1,"method":"a\u00`},
	{"empty", ``},
	{"space", ` `},
	{"no colon", `{"jsonrpc" "2.0"}`},
	{"unquoted name", `{jsonrpc:"2.0"}`},
}

func TestScanRefusesHostileText(t *testing.T) {
	for _, tt := range hostile {
		var m Message
		err := Scan([]byte(tt.frame), &m)
		if !errors.Is(err, ErrParse) || m.Kind != KindInvalid {
			t.Errorf("%s: Scan: got %v, %v, want a parse error", tt.name, m.Kind, err)
		}
		if strings.Contains(fmt.Sprint(err), "tools/") {
			t.Errorf("%s: the error %q quotes the input", tt.name, err)
		}
	}
}

// Names that only look like ours are unknown members (security.md 5.1).
func TestScanExactNames(t *testing.T) {
	var m Message
	frame := `{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call","METHOD":"x","method\u0000":"y","paramſ":{"a":1}}`
	if err := Scan([]byte(frame), &m); err != nil || m.Method != MethodListTools || m.Params != nil {
		t.Errorf("Scan: got %q, params %s, %v, want tools/list without params", m.Method, m.Params, err)
	}
}

func TestScanRefusesInvalidMessages(t *testing.T) {
	tests := []struct {
		frame string
		kind  Kind
		id    ID
	}{
		{`[]`, KindInvalid, ID{}},
		{`"x"`, KindInvalid, ID{}},
		{`null`, KindInvalid, ID{}},
		{`{}`, KindInvalid, ID{}},
		{`{"jsonrpc":"2.0","id":1}`, KindInvalid, IntID(1)},
		{`{"jsonrpc":"1.0","id":1,"method":"a"}`, KindRequest, IntID(1)},
		{`{"id":1,"method":"a"}`, KindRequest, IntID(1)},
		{`{"jsonrpc":2.0,"id":1,"method":"a"}`, KindRequest, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"method":5}`, KindRequest, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"method":null}`, KindRequest, IntID(1)},
		{`{"jsonrpc":"2.0","id":null,"method":"a"}`, KindRequest, ID{}}, // BASE-02
		{`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, KindRequest, ID{}},
		{`{"jsonrpc":"2.0","id":{},"method":"a"}`, KindRequest, ID{}},
		{`{"jsonrpc":"2.0","id":true,"method":"a"}`, KindRequest, ID{}},
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`, KindRequest, IntID(1)}, // BASE-03
		{`{"jsonrpc":"2.0","id":1,"method":"a","params":null}`, KindRequest, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, KindRequest, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, KindError, IntID(1)}, // BASE-06
		{`{"jsonrpc":"2.0","id":1,"result":null}`, KindResult, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"result":[]}`, KindResult, IntID(1)},
		{`{"jsonrpc":"2.0","result":{}}`, KindResult, ID{}},
		{`{"jsonrpc":"2.0","id":null,"result":{}}`, KindResult, ID{}},
		{`{"jsonrpc":"2.0","id":1,"result":{"resultType":1}}`, KindResult, IntID(1)}, // BASE-12
		{`{"jsonrpc":"2.0","id":1,"result":{"resultType":""}}`, KindResult, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"error":"x"}`, KindError, IntID(1)}, // BASE-07
		{`{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`, KindError, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`, KindError, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}`, KindError, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, KindError, IntID(1)},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":99999999999999999999,"message":"m"}}`, KindError, IntID(1)},
		{`{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":"m"}}`, KindError, ID{}},
	}
	for _, tt := range tests {
		var m Message
		err := Scan([]byte(tt.frame), &m)
		if !errors.Is(err, ErrInvalidRequest) || m.Kind != tt.kind || m.ID != tt.id {
			t.Errorf("Scan(%s): got %v, id %v, %v, want %v, id %v, -32600", tt.frame, m.Kind, m.ID, err, tt.kind, tt.id)
		}
	}
}

// An id that came before the fault is there for the answer (BASE-16).
func TestScanKeepsIDOfBrokenText(t *testing.T) {
	tests := []struct {
		frame string
		want  ID
	}{
		{`{"jsonrpc":"2.0","id":7,"method":`, IntID(7)}, // BASE-16
		{`{"jsonrpc":"2.0","id":7 `, IntID(7)},
		{`{"jsonrpc":"2.0","id":7`, ID{}}, // perhaps 78
		{`{"jsonrpc":"2.0","id":07,"method":"ping"}`, ID{}},
		{`{"jsonrpc":"2.0","id":"7`, ID{}},
	}
	for _, tt := range tests {
		var m Message
		if err := Scan([]byte(tt.frame), &m); !errors.Is(err, ErrParse) || m.ID != tt.want {
			t.Errorf("Scan(%s): got id %v, %v, want %v and a parse error", tt.frame, m.ID, err, tt.want)
		}
	}
}

func TestScanDepthBound(t *testing.T) {
	frame := func(n int) []byte {
		return []byte(`{"jsonrpc":"2.0","method":"a","params":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`)
	}
	var m Message
	if err := Scan(frame(MaxDepth-2), &m); err != nil {
		t.Errorf("Scan at the bound: got %v, want nil", err)
	}
	if err := Scan(frame(MaxDepth-1), &m); !errors.Is(err, ErrParse) {
		t.Errorf("Scan beyond the bound: got %v, want a parse error", err)
	}
}

// ROB-3: small parts take more memory than space, so their number is bounded, too.
func TestScanPartsBound(t *testing.T) {
	frame := func(before string, n int, part func(i int) string, after string) []byte {
		var b strings.Builder
		b.WriteString(`{"jsonrpc":"2.0","method":"a","params":{"a":` + before)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(part(i))
		}
		return []byte(b.String() + after + `}}`)
	}
	objects := func(n int) []byte { return frame(`[`, n, func(int) string { return `{}` }, `]`) }
	members := func(n int) []byte {
		return frame(`{`, n, func(i int) string { return fmt.Sprintf(`"%x":0`, i) }, `}`)
	}
	for name, tt := range map[string]struct{ most, more []byte }{
		"objects": {objects(maxObjects - 2), objects(maxObjects - 1)}, // beside the message and params
		"members": {members(maxMembers - 4), members(maxMembers - 3)}, // beside theirs
	} {
		var m Message
		if err := Scan(tt.most, &m); err != nil {
			t.Errorf("Scan of the most %s: got %v, want nil", name, err)
		}
		if err := Scan(tt.more, &m); !errors.Is(err, ErrParse) {
			t.Errorf("Scan of more %s: got %v, want a parse error", name, err)
		}
	}
}

// Big objects find duplicates without comparing all pairs: quadratic work on
// these would take minutes.
func TestScanBigObjects(t *testing.T) {
	var keys strings.Builder
	for i := range 90_000 {
		fmt.Fprintf(&keys, `"k%d":{"a":1},`, i)
	}
	frame := func(last string) []byte {
		return []byte(`{"jsonrpc":"2.0","method":"a","params":{` + keys.String() + last + `}}`)
	}
	var m Message
	if err := Scan(frame(`"z":1`), &m); err != nil {
		t.Errorf("Scan of a big object: got %v, want nil", err)
	}
	if err := Scan(frame(`"k5":1`), &m); !errors.Is(err, ErrParse) {
		t.Errorf("Scan of a big object with a duplicate: got %v, want a parse error", err)
	}
}

// Names are forgotten when their object ends, in small and big objects alike.
func TestScanNestedNames(t *testing.T) {
	big := func(extra string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return "{" + b.String() + extra + "}"
	}
	tests := []struct {
		name, params string
		ok           bool
	}{
		{"same names in siblings", `{"a":` + big(`"x":1`) + `,"b":` + big(`"x":1`) + `}`, true},
		{"same names in a child", big(`"x":` + big(`"y":`+big(`"z":1`))), true},
		{"duplicate behind a child", big(`"x":` + big(`"y":1`) + `,"k7":1`), false},
		{"duplicate of the first", big(`"x":` + big(`"y":1`) + `,"k0":1`), false},
		{"duplicate in a child", big(`"x":` + big(`"k39":1`)), false},
		{"children of a growing object", `{"a":` + big(`"b":`+big(`"c":1`)+`,"d":`+big(`"e":1`)+`,"f":1`) + `}`, true},
	}
	for _, tt := range tests {
		var m Message
		err := Scan([]byte(`{"jsonrpc":"2.0","method":"a","params":`+tt.params+`}`), &m)
		if (err == nil) != tt.ok {
			t.Errorf("%s: Scan: got %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

func TestScanAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations mean nothing under the race detector")
	}
	frame := callFrame(100)
	var m Message
	if n := testing.AllocsPerRun(100, func() { _ = Scan(frame, &m) }); n > 2 {
		t.Errorf("Scan: got %v allocations, want at most 2", n)
	}
}

func TestScanBatch(t *testing.T) {
	tests := []struct {
		frame string
		want  int
		err   error
	}{
		{` [{"a":1}, 5 ,[]] `, 3, nil},
		{`[]`, 0, ErrInvalidRequest}, // BASE-22
		{`[1,2,3,4,5]`, 0, ErrInvalidRequest},
		{`{"a":1}`, 0, ErrInvalidRequest},
		{`[1,]`, 0, ErrParse},
		{`[1] 2`, 0, ErrParse},
		{`[{"a":1,"a":2}]`, 0, ErrParse},
		{`[1`, 0, ErrParse},
		{strings.Repeat("[", 5000), 0, ErrParse},
	}
	for _, tt := range tests {
		n := 0
		err := ScanBatch([]byte(tt.frame), 4, func([]byte) error { n++; return nil })
		if n != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ScanBatch(%.20s): got %d elements, %v, want %d, %v", tt.frame, n, err, tt.want, tt.err)
		}
	}
	stop := errors.New("stop")
	if err := ScanBatch([]byte(`[1,2]`), 4, func([]byte) error { return stop }); err != stop {
		t.Errorf("ScanBatch: got %v, want the callback's error", err)
	}
	if !IsBatch([]byte(" \n[")) || IsBatch([]byte(`{"a":[]}`)) || IsBatch(nil) {
		t.Error("IsBatch: the first byte that is not space must decide")
	}
}

package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// tape is a server of everything that keeps each line it was sent.
type tape struct {
	*worker
	starts int
	mu     sync.Mutex
	read   bytes.Buffer
}

// Write keeps what comes on the server's stdin.
func (x *tape) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.read.Write(p)
}

func (x *tape) lines() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Split(strings.TrimSuffix(x.read.String(), "\n"), "\n")
}

const (
	tapeAsks  = `"f":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}},"r":{"method":"roots/list"},"s":{"method":"sampling/createMessage","params":` + sampleHello + `}`
	tapeTools = `{"tools":[{"name":"plain","inputSchema":{"type":"object"}},{"name":"slow","inputSchema":{"type":"object"}},{"name":"asks","inputSchema":{"type":"object"}},{"name":"must","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`
)

// newTape returns a server that declares caps, of all that its revision has.
func newTape(t *testing.T, v mcp.Version, caps string) *tape {
	x := &tape{worker: newWorker(t, v)}
	x.worker.caps, x.worker.list = caps, tapeTools
	for method, result := range map[string]string{
		mcp.MethodPing:                  `{}`,
		mcp.MethodSetLevel:              `{}`,
		mcp.MethodSubscribe:             `{}`,
		mcp.MethodUnsubscribe:           `{}`,
		mcp.MethodListResources:         `{"resultType":"complete","resources":[{"uri":"x://é","name":"a"}],"ttlMs":0,"cacheScope":"private"}`,
		mcp.MethodListResourceTemplates: `{"resultType":"complete","resourceTemplates":[],"ttlMs":0,"cacheScope":"private"}`,
		mcp.MethodReadResource:          `{"resultType":"complete","contents":[],"ttlMs":0,"cacheScope":"private"}`,
		mcp.MethodListPrompts:           `{"resultType":"complete","prompts":[],"ttlMs":0,"cacheScope":"private"}`,
		mcp.MethodGetPrompt:             `{"resultType":"complete","messages":[]}`,
		mcp.MethodComplete:              `{"resultType":"complete","completion":{"values":[]}}`,
		mcp.MethodListTasks:             `{"tasks":[]}`,
		mcp.MethodUpdateTask:            `{"resultType":"complete"}`,
	} {
		x.on[method] = func(_ *asker, m *mcp.Message) string { return resultOf(m, result) }
	}
	tasks := x.on[mcp.MethodCallTool]
	x.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
		switch name, _ := m.NameString(); name {
		case "must":
			return tasks(s, m)
		case "slow":
			return ""
		case "asks":
			if v.Era() == mcp.EraModern && !strings.Contains(string(m.Params), `"inputResponses"`) {
				return resultOf(m, `{"resultType":"input_required","inputRequests":{`+tapeAsks+`}}`)
			}
			if v.Era() == mcp.EraLegacy {
				x.askEverything()
			}
		}
		return resultOf(m, `{"resultType":"complete","content":[]}`)
	}
	x.on[mcp.MethodUpdateTask] = func(_ *asker, m *mcp.Message) string {
		x.set(mcp.TaskCompleted, `,"result":{"content":[]}`)
		return resultOf(m, `{"resultType":"complete"}`)
	}
	x.on[mcp.MethodListen] = func(s *asker, m *mcp.Message) string {
		s.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` + filterOf(m) + `,"_meta":{"io.modelcontextprotocol/subscriptionId":` + m.ID.String() + `}}}`)
		return ""
	}
	return x
}

// askEverything has a legacy server ask all there is, and what there is not.
func (x *tape) askEverything() {
	x.ask("ping", mcp.MethodPing, "")
	x.ask("roots", mcp.MethodListRoots, "")
	x.ask("sample", mcp.MethodCreateMessage, sampleHello)
	x.ask("form", mcp.MethodElicit, elicitForm("?"))
	x.ask("url", mcp.MethodElicit, `{"mode":"url","message":"go","url":"https://x.example/p","elicitationId":"1"}`)
	x.ask("unknown", "no/such", "")
	x.ask("bad", mcp.MethodElicit, `{"message":"`+strings.Repeat("x\\n", 1000)+`","requestedSchema":{"type":"object","properties":{"`+strings.Repeat("line\\n", 1000)+`":{"type":"`+strings.Repeat("object\\n", 1000)+`"}}}}`)
	x.ask("worse", mcp.MethodCreateMessage, `{"messages":[{"role":"`+strings.Repeat("nobody\\n", 1000)+`","content":{"type":"text","text":"x"}}],"maxTokens":1}`)
	x.ask("task", mcp.MethodElicit, strings.TrimSuffix(elicitForm("?"), "}")+`,"task":{"ttl":60000}}`)
}

// dial connects a client that has all that a client can have.
func (x *tape) dial(t *testing.T) *Client {
	t.Helper()
	var b browserLog
	opts := &Options{
		System:     newSystem(t),
		Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
		AskOptions: AskOptions{
			Human: says(mcp.ActionAccept, "name", `"Ada"`), Sampler: model("hello \u2028 <é>"), SampleFreely: true, OpenURL: b.open,
			Roots: []mcp.Root{{URI: "file:///a", Name: "naïve"}}, RootAvailable: func(string) bool { return true },
		},
	}
	opts.start = func(*Server) (pipe.Process, error) {
		x.starts++
		return start(func(p *fakeProcess) string {
			p.lines = bufio.NewScanner(io.TeeReader(p.inR, x))
			p.lines.Buffer(nil, 8<<20)
			return x.serve(p)
		}), nil
	}
	server := Command("tape")
	server.Name, server.Protocol = "tape", string(x.version)
	c, err := Dial(t.Context(), server, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// useAll does with a client all that can be done with one, and passes over what its
// server cannot do.
func (x *tape) useAll(t *testing.T, c *Client) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil && x.caps != `{}` && !isUnsupported(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must("Ping", c.Ping(ctx))
	must("SetLogLevel", c.SetLogLevel(ctx, mcp.LogInfo))
	_, err := c.ListTools(ctx)
	must("ListTools", err)
	_, err = c.CallTool(ctx, "plain", json.RawMessage("{\"a\":\"\u2028é\",\n \"b\":1}"), &CallOptions{Progress: func(Progress) {}})
	must("plain", err)
	_, err = c.CallTool(ctx, "asks", nil, nil)
	must("asks", err)
	brief, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := c.CallTool(brief, "slow", nil, nil); err == nil {
		t.Error("slow was answered")
	}
	_, err = c.ListResources(ctx)
	must("ListResources", err)
	_, err = c.ListResourceTemplates(ctx)
	must("ListResourceTemplates", err)
	_, err = c.ReadResource(ctx, "x://é", nil)
	must("ReadResource", err)
	_, err = c.ListPrompts(ctx)
	must("ListPrompts", err)
	_, err = c.GetPrompt(ctx, "p", map[string]string{"a": "é"}, nil)
	must("GetPrompt", err)
	_, err = c.Complete(ctx, &mcp.CompleteParams{Ref: mcp.CompletionRef{Type: "ref/prompt", Name: "p"}, Argument: mcp.CompletionArgument{Name: "a", Value: "é"}})
	must("Complete", err)
	sub, err := c.Subscribe(ctx, "x://é", func(string) {})
	must("Subscribe", err)
	synctest.Wait()
	if sub != nil {
		must("Close", sub.Close())
	}
	must("SetRoots", c.SetRoots([]mcp.Root{{URI: "file:///b"}}))
	_, err = c.ListTasks(ctx)
	must("ListTasks", err)
	x.useTasks(t, c, must)
	synctest.Wait()
}

// useTasks has a tool call be a task: one is asked for input and completed, one is
// cancelled.
func (x *tape) useTasks(t *testing.T, c *Client, must func(string, error)) {
	t.Helper()
	x.set(mcp.TaskWorking, "")
	task, err := c.CallToolTask(t.Context(), "must", nil, nil)
	must("CallToolTask", err)
	if task == nil {
		return
	}
	_, err = task.Status(t.Context())
	must("Status", err)
	if x.version.Era() == mcp.EraModern {
		x.set(mcp.TaskInputRequired, `,"inputRequests":{`+tapeAsks+`}`)
	} else {
		x.set(mcp.TaskCompleted, "")
	}
	_, err = task.Wait(t.Context())
	must("Wait", err)
	x.set(mcp.TaskWorking, "")
	task, err = c.CallToolTask(t.Context(), "must", nil, nil)
	must("CallToolTask", err)
	must("Cancel", task.Cancel(t.Context()))
}

// capsOfAll are what no revision has together.
const capsOfAll = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// useOthers asks for what the revision does not have.
func (x *tape) useOthers(t *testing.T, c *Client, has []string) {
	t.Helper()
	for _, method := range strings.Fields("initialize server/discover ping resources/subscribe resources/unsubscribe logging/setLevel subscriptions/listen roots/list sampling/createMessage elicitation/create tasks/get tasks/result tasks/list tasks/cancel tasks/update") {
		if method != mcp.MethodInitialize && slices.Contains(has, method) {
			continue
		}
		if _, err := c.Request(t.Context(), method, nil, nil); err == nil {
			t.Errorf("Request(%s): got no error", method)
		}
	}
}

// tapeCaps are the capabilities of a server that has all that is in its revision.
func tapeCaps(v mcp.Version) string {
	caps := `"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"logging":{}`
	if v != mcp.V2024_11_05 {
		caps += `,"completions":{}`
	}
	switch v {
	case mcp.V2025_11_25:
		caps += `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	case mcp.V2026_07_28:
		caps += `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
	}
	return "{" + caps + "}"
}

// BASE-01, BASE-18, BASE-21, LIFE-09, CAP-08, MOD-06, STDIO-06: all that a client sends
// in a session in which it does everything. The methods are those that the revision
// gives to a client, all of them and no others, also with a server that declares what
// belongs to another revision; with one that declares nothing, only those that need no
// declaration.
func TestWholeSession(t *testing.T) {
	const (
		base   = "initialize notifications/initialized notifications/roots/list_changed ping"
		legacy = base + " notifications/cancelled completion/complete logging/setLevel prompts/get prompts/list resources/list resources/read resources/subscribe resources/templates/list resources/unsubscribe tools/call tools/list"
	)
	tests := []struct {
		version  mcp.Version
		all      string // the methods with a server of everything
		declared string // and with one that declares nothing
		answered string // the questions that get a result
	}{
		{mcp.V2024_11_05, legacy, base, "ping roots sample"},
		{mcp.V2025_03_26, legacy, base, "ping roots sample"},
		{mcp.V2025_06_18, legacy, base, "ping roots sample form task"},
		{mcp.V2025_11_25, legacy + " notifications/tasks/status tasks/cancel tasks/get tasks/list tasks/result", base, "ping roots sample form url task"},
		{mcp.V2026_07_28, "server/discover notifications/cancelled completion/complete prompts/get prompts/list resources/list resources/read resources/templates/list subscriptions/listen tools/call tools/list tasks/cancel tasks/get tasks/update", "server/discover", ""},
	}
	for _, tt := range tests {
		for name, caps := range map[string]string{"all": tapeCaps(tt.version), "nothing": `{}`, "more than there is": capsOfAll} {
			t.Run(fmt.Sprintf("%s %s", tt.version, name), func(t *testing.T) {
				var lines []string
				inBubble(t, func(t *testing.T) {
					x := newTape(t, tt.version, caps)
					c := x.dial(t)
					x.useAll(t, c)
					x.useOthers(t, c, strings.Fields(tt.all))
					if err := c.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
					if x.starts != 1 { // MOD-06: a process is no call's or conversation's own
						t.Errorf("%d processes for one session", x.starts)
					}
					lines = x.lines()
				})
				session := parseSession(t, lines)
				want := tt.all
				if caps == `{}` {
					want = tt.declared
				} else if tt.answered != "" {
					session.checkAnswers(t, strings.Fields(tt.answered))
				}
				session.checkMethods(t, strings.Fields(want))
				session.checkOrder(t, tt.version)
				session.checkSchema(t, tt.version)
			})
		}
	}
}

func isUnsupported(err error) bool {
	return strings.Contains(err.Error(), "not declared") || strings.Contains(err.Error(), "not exist")
}

// session is what a client has sent.
type session []sentLine

type sentLine struct {
	raw    string
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int64
		Message string
	}
	JSONRPC string
}

// parseSession is BASE-01 and BASE-21: each line is an object of JSON-RPC 2.0 in UTF-8,
// none is an array. It is read by another reader than that of the product.
func parseSession(t *testing.T, lines []string) (all session) {
	t.Helper()
	for _, line := range lines {
		if !utf8.ValidString(line) || !strings.HasPrefix(line, "{") {
			t.Fatalf("sent %q", line)
		}
		s := sentLine{raw: line}
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.JSONRPC != "2.0" {
			t.Fatalf("sent %s: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// checkMethods compares the methods that were used.
func (all session) checkMethods(t *testing.T, want []string) {
	t.Helper()
	used := map[string]bool{}
	for _, s := range all {
		if s.Method != "" {
			used[s.Method] = true
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, want) {
		t.Errorf("methods: got %s\nwant %s", got, want)
	}
}

// checkAnswers compares the questions that were answered with a result, and looks at
// the errors that the others got: bounded, and of one line (BASE-19).
func (all session) checkAnswers(t *testing.T, want []string) {
	t.Helper()
	answered := map[string]bool{}
	for _, s := range all {
		if s.Method == "" && s.Error == nil {
			answered[strings.Trim(string(s.ID), `"`)] = true
		}
		if s.Error != nil && (s.Error.Message == "" || len(s.Error.Message) > 510 || strings.ContainsAny(s.Error.Message, "\r\n")) {
			t.Errorf("an error of %d bytes: %.400q", len(s.Error.Message), s.Error.Message)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(answered)); !slices.Equal(got, want) {
		t.Errorf("answered: got %s, want %s", got, want)
	}
}

// checkOrder is LIFE-01 for the legacy era. In the modern one there are no answers
// (STDIO-06), and each request says all about its sender (MOD-06, CAP-08).
func (all session) checkOrder(t *testing.T, v mcp.Version) {
	t.Helper()
	if v.Era() == mcp.EraLegacy {
		if all[0].Method != mcp.MethodInitialize || all[1].Method != mcp.NotificationInitialized {
			t.Errorf("the session begins with %s, %s", all[0].raw, all[1].raw)
		}
		for _, s := range all[1:] {
			if s.Method == mcp.MethodInitialize {
				t.Errorf("a second %s", s.raw)
			}
		}
		return
	}
	for _, s := range all {
		if s.Method == "" {
			t.Errorf("an answer: %s", s.raw)
			continue
		}
		if s.ID == nil {
			continue
		}
		var p struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal(s.Params, &p); err != nil {
			t.Fatalf("%s: %v", s.raw, err)
		}
		if got := string(p.Meta["io.modelcontextprotocol/protocolVersion"]); got != `"2026-07-28"` {
			t.Errorf("%s is of revision %s", s.raw, got)
		}
		if p.Meta["io.modelcontextprotocol/clientInfo"] == nil {
			t.Errorf("%s does not say who asks", s.raw)
		}
		wantJSON(t, s.Method+" declares", string(p.Meta["io.modelcontextprotocol/clientCapabilities"]),
			`{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	}
}

// checkSchema holds everything against the official schema, where that is here.
func (all session) checkSchema(t *testing.T, v mcp.Version) {
	t.Helper()
	schema := mcpschema.Load(t, v)
	for _, s := range all {
		raw := []byte(s.raw)
		schema.CheckMessage(t, raw)
		switch {
		case s.Method != "" && s.ID == nil:
			schema.Check(t, "ClientNotification", raw)
		case strings.HasPrefix(s.Method, "tasks/") && v.Era() == mcp.EraModern:
			checkTaskRequest(t, s)
		case s.Method != "":
			schema.Check(t, "ClientRequest", raw)
		case s.Error == nil:
			schema.Check(t, "ClientResult", s.Result)
		}
	}
}

func checkTaskRequest(t *testing.T, s sentLine) {
	t.Helper()
	def := map[string]string{mcp.MethodGetTask: "GetTaskRequest", mcp.MethodCancelTask: "CancelTaskRequest", mcp.MethodUpdateTask: "UpdateTaskRequest"}[s.Method]
	mcpschema.LoadTasks(t).Check(t, def, []byte(s.raw))
}

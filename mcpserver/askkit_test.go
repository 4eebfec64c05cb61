package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type nameForm struct {
	Name string `json:"name" jsonschema:"what you are called"`
}

type greetIn struct {
	N json.Number `json:"n,omitempty"`
	S string      `json:"s,omitempty"`
}

type needIn struct {
	Key string `json:"key,omitempty"` // another page for each
}

type orderForm struct {
	Count int  `json:"count"`
	Gift  bool `json:"gift,omitempty"`
}

// counts are what the handlers of these tests have done.
type counts struct {
	greeted, paid, ran atomic.Int64
	ended              chan error // what a handler's context has ended with
}

const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// newAsking returns a server whose tools ask.
func newAsking(t testing.TB, opts *mcpserver.Options) (*mcpserver.Server, *counts) {
	t.Helper()
	s, _ := newServer(t, opts)
	c := &counts{ended: make(chan error, 10_000)}
	err := errors.Join(
		mcpserver.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ greetIn) (string, error) {
			c.ran.Add(1)
			who, err := mcpserver.Elicit[nameForm](ctx, req, "name", "What is your name?")
			if err != nil {
				note(c.ended, context.Cause(ctx))
				return "", err
			}
			c.greeted.Add(1)
			return "Hello, " + who.Name + "!", nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "order"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			c.ran.Add(1)
			first, err := mcpserver.Elicit[nameForm](ctx, req, "who", "For whom?")
			if err != nil {
				return "", err
			}
			number, err := mcpserver.Once(ctx, req, "pay", func(context.Context) (int64, error) { return c.paid.Add(1), nil })
			if err != nil {
				return "", err
			}
			second, err := mcpserver.Elicit[orderForm](ctx, req, "what", "How many for "+first.Name+"?")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d for %s, number %d", second.Count, first.Name, number), nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "all"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			form := mcpserver.FormQuestion("form", &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(nameSchema)})
			model := mcpserver.SampleQuestion("model", sampleParams("Capital of France?"))
			roots := mcpserver.RootsQuestion("roots")
			if err := req.Ask(ctx, form, model, roots); err != nil {
				return "", err
			}
			if err := errors.Join(form.Err, model.Err, roots.Err); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s %s", form.Elicited.Content["name"], model.Sampled.Content.Text(), roots.Roots[0].URI), nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "sample"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			r, err := req.Sample(ctx, "model", sampleParams("Hi"))
			if err != nil {
				return "", err
			}
			return r.Content.Text(), nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "roots"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			roots, err := req.Roots(ctx, "roots")
			return fmt.Sprint(len(roots)), err
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "form"}, func(ctx context.Context, req *mcpserver.ToolRequest, schema json.RawMessage) (string, error) {
			r, err := req.ElicitForm(ctx, "form", &mcp.ElicitParams{Message: "Please.", RequestedSchema: schema})
			if err != nil {
				return "", err
			}
			content, err := json.Marshal(r.Content)
			return r.Action + " " + string(content), err
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "page"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			c.ran.Add(1)
			err := req.ElicitURL(ctx, "page", "Please sign.", "https://example.com/sign?e="+mcpserver.ElicitationID)
			if err != nil {
				return "", err
			}
			return "signed", nil
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "need"}, func(_ context.Context, req *mcpserver.ToolRequest, in needIn) (string, error) {
			if c.greeted.Load() > 0 {
				return "signed", nil
			}
			return "", req.NeedURL("page"+in.Key, "Please sign.", "https://example.com/sign?e="+mcpserver.ElicitationID)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "retry"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			c.ran.Add(1)
			answer, ok := req.Responses()["name"]
			if !ok {
				return "", &mcpserver.InputRequired{State: "first", Requests: mcp.InputRequests{
					"name": {Method: mcp.MethodElicit, Params: json.RawMessage(`{"mode":"form","message":"Who?","requestedSchema":` + nameSchema + `}`)},
				}}
			}
			return req.State() + " " + string(answer), nil
		}),
		mcpserver.AddPrompt(s, &mcp.Prompt{Name: "ask"}, func(ctx context.Context, req *mcpserver.PromptRequest, _ map[string]string) (string, error) {
			who, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			return "For " + who.Name, err
		}),
		mcpserver.AddResource(s, &mcp.Resource{URI: "test://ask", Name: "ask"}, func(ctx context.Context, req *mcpserver.ResourceRequest) (string, error) {
			who, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			return "Of " + who.Name, err
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func sampleParams(text string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text(text)}}}}
}

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// asked is a client that can be asked.
type asked struct {
	*peer
	v    mcp.Version
	caps string
	next int
}

// openAsked opens a client with the capabilities, of either era.
func openAsked(t testing.TB, s *mcpserver.Server, v mcp.Version, caps string) *asked {
	t.Helper()
	a := &asked{peer: serve(t, s), v: v, caps: caps}
	if v.Era() == mcp.EraModern {
		a.peer.modern()
		return a
	}
	a.peer.version, a.peer.check = v, official(t, v)
	a.peer.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"peer","version":"1"}}}`, v, caps))
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

// line is a request; extra are further members of the params, with a comma first.
func (a *asked) line(method, params string) string {
	a.next++
	if a.v.Era() == mcp.EraModern {
		meta := strings.Replace(modernMeta, `{"elicitation":{"form":{}}}`, a.caps, 1)
		params = strings.TrimSuffix(params, "}")
		if params != "{" {
			params += ","
		}
		params += `"_meta":{` + meta + `}}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, a.next, method, params)
}

func (a *asked) tool(name, arguments, extra string) string {
	return a.line(mcp.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, name, arguments, extra))
}

// said is anything the server says.
type said struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Error  *mcp.Error
	Result *struct {
		ResultType    string
		InputRequests map[string]struct {
			Method string
			Params json.RawMessage
		}
		RequestState string
		Content      []struct{ Text string }
		IsError      bool
		Messages     []struct{ Content struct{ Text string } }
		Contents     []struct{ Text string }
	}
}

func readMessage(t testing.TB, line string) said {
	t.Helper()
	var m said
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("got %s: %v", clip(line), err)
	}
	return m
}

// text is what a result says.
func (m said) text() string {
	switch {
	case m.Error != nil:
		return fmt.Sprintf("error %d %s", m.Error.Code, m.Error.Message)
	case m.Result == nil:
		return "no result"
	}
	var all []string
	for _, c := range m.Result.Content {
		all = append(all, c.Text)
	}
	for _, c := range m.Result.Messages {
		all = append(all, c.Content.Text)
	}
	for _, c := range m.Result.Contents {
		all = append(all, c.Text)
	}
	out := strings.Join(all, "\n")
	if m.Result.IsError {
		return "isError " + out
	}
	return out
}

// converse sends a request and answers all questions, until the outcome. Respond gives
// the result for a question.
func (a *asked) converse(method, params string, respond func(method string, params json.RawMessage) string) said {
	a.t.Helper()
	a.send(a.line(method, params))
	for range 50 {
		m := readMessage(a.t, a.receive())
		switch {
		case m.Method != "" && m.ID != nil:
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answerOf(respond(m.Method, m.Params))))
		case m.Method != "":
		case m.Result != nil && m.Result.ResultType == mcp.ResultInputRequired:
			a.send(a.line(method, strings.TrimSuffix(params, "}")+a.retry(m, respond)+"}"))
		default:
			return m
		}
	}
	a.t.Fatal("it never ends")
	return said{}
}

// reply is the member of a response.
func answerOf(result string) string {
	if strings.HasPrefix(result, `{"code"`) {
		return `"error":` + result
	}
	return `"result":` + result
}

// retry are the members that make a request the retry of m.
func (a *asked) retry(m said, respond func(method string, params json.RawMessage) string) string {
	answers := map[string]json.RawMessage{}
	for key, q := range m.Result.InputRequests {
		answers[key] = json.RawMessage(respond(q.Method, q.Params))
	}
	raw, err := json.Marshal(answers)
	if err != nil {
		a.t.Fatal(err)
	}
	return retryWith(m, string(raw))
}

func retryWith(m said, answers string) string {
	state, _ := json.Marshal(m.Result.RequestState)
	return fmt.Sprintf(`,"inputResponses":%s,"requestState":%s`, answers, state)
}

func (a *asked) call(tool, arguments string, respond func(method string, params json.RawMessage) string) string {
	a.t.Helper()
	return a.converse(mcp.MethodCallTool, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), respond).text()
}

// respondAda answers whatever is asked.
func respondAda(method string, params json.RawMessage) string {
	switch {
	case method == mcp.MethodCreateMessage:
		return `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`
	case method == mcp.MethodListRoots:
		return `{"roots":[{"uri":"file:///home/ada"}]}`
	case strings.Contains(string(params), "How many"):
		return `{"action":"accept","content":{"count":3}}`
	}
	return accept("Ada")
}

func accept(name string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"name":%q}}`, name)
}

func respondWith(answer string) func(string, json.RawMessage) string {
	return func(string, json.RawMessage) string { return answer }
}

// bothWays runs f in a bubble for each revision that can be asked, with handlers kept
// between rounds and not.
func bothWays(t *testing.T, oldest mcp.Version, f func(t *testing.T, s *mcpserver.Server, a *asked, c *counts)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		if v < oldest {
			continue
		}
		for _, noParking := range []bool{false, true} {
			if v.Era() == mcp.EraLegacy && noParking {
				continue
			}
			name := string(v)
			if noParking {
				name += ", run again"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, c := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: noParking}})
					f(t, s, openAsked(t, s, v, allCapabilities), c)
				})
			})
		}
	}
}

// eachWay is bothWays for 2026-07-28 alone.
func eachWay(t *testing.T, f func(t *testing.T, s *mcpserver.Server, a *asked, c *counts)) {
	t.Helper()
	bothWays(t, mcp.V2026_07_28, f)
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

func synctestOnce(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// addSampler adds a tool that asks the model.
func addSampler(t *testing.T, s *mcpserver.Server, p *mcp.CreateMessageParams) {
	t.Helper()
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "sampler"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		_, err := req.Sample(ctx, "model", p)
		return "ok", err
	})
	if err != nil {
		t.Fatal(err)
	}
}

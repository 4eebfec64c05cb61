package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcpschema "github.com/troupe-dev/troupe/internal/mcptest/schema"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// hub is a server with something of everything that clients can hear of.
func hub(t testing.TB, opts *mcpserver.Options) *mcpserver.Server {
	t.Helper()
	s, _ := newServer(t, opts)
	err := errors.Join(
		mcpserver.AddResource(s, &mcp.Resource{URI: "file:///a", Name: "a"}, func(context.Context, *mcpserver.ResourceRequest) (string, error) { return "a", nil }),
		mcpserver.AddPrompt(s, &mcp.Prompt{Name: "p"}, func(context.Context, *mcpserver.PromptRequest, map[string]string) (string, error) { return "p", nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // what that was is told to nobody
	return s
}

const everything = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///a"]}`

func listen(id any, filter string) string {
	return request(mcp.V2026_07_28, id, mcp.MethodListen, `{"notifications":`+filter+`}`)
}

// of returns a notification of a subscription; id is JSON.
func of(id, method, params string) string {
	if params != "" {
		params = "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, method, id, params)
}

func acknowledged(id, accepted string) string {
	return of(id, mcp.NotificationListenAcknowledged, `"notifications":`+accepted)
}

func ended(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":%s,"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`, id, id)
}

func cancelled(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

// wants compares the next lines, in any order if they are of one moment.
func (p *peer) wants(lines ...string) {
	p.t.Helper()
	left := slices.Clone(lines)
	for range lines {
		got := p.receive()
		i := slices.IndexFunc(left, func(want string) bool { return mcpschema.Equal([]byte(got), []byte(want)) })
		if i < 0 {
			p.t.Errorf("got %s\nwant one of\n%s", clip(got), strings.Join(left, "\n"))
			return
		}
		left = slices.Delete(left, i, i+1)
	}
	p.silent()
}

// SUB-01, SUB-02, SUB-04, SUB-11, SUB-13: a subscription is acknowledged first, with
// what it will tell of.
func TestListenAcknowledged(t *testing.T) {
	long := "file:///" + strings.Repeat("x", 3000)
	tests := []struct {
		name, filter, want string
		bare               bool // a server that has tools only
	}{
		{"everything", everything, everything, false},
		{"nothing", `{}`, `{}`, false},
		{"false", `{"toolsListChanged":false,"resourceSubscriptions":[]}`, `{}`, false},
		{"unknown members", `{"promptsListChanged":true,"x":{"y":1},"resourcesListChanged":false}`, `{"promptsListChanged":true}`, false},
		{"not offered", everything, `{"toolsListChanged":true}`, true},
		{"twice", `{"resourceSubscriptions":["x:b","x:a","x:b"]}`, `{"resourceSubscriptions":["x:b","x:a"]}`, false},
		{"no URIs", `{"resourceSubscriptions":["","nothing","` + long + `","x:a"]}`, `{"resourceSubscriptions":["x:a"]}`, false}, // RES-08
		{"no tasks here", `{"taskIds":["1"]}`, `{}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *mcpserver.Server
				if tt.bare {
					s, _ = newServer(t, nil)
				} else {
					s = hub(t, nil)
				}
				p := serve(t, s)
				p.modern()
				p.send(listen("L", tt.filter))
				p.wants(acknowledged(`"L"`, tt.want))
			})
		})
	}
}

// A wish that is none is refused, and nothing is left of it.
func TestListenMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.modern()
		for _, filter := range []string{`null`, `1`, `[]`, `{"toolsListChanged":1}`, `{"resourceSubscriptions":"x:a"}`, `{"resourceSubscriptions":[1]}`, `{"taskIds":{}}`} {
			p.expectError(listen(1, filter), mcp.CodeInvalidParams, "1")
		}
		p.expectError(request(mcp.V2026_07_28, 1, mcp.MethodListen, `{}`), mcp.CodeInvalidParams, "1")
		if streams, uris, _, quotas, bytes := s.Subscribed(); streams+uris+quotas+bytes != 0 {
			t.Errorf("left: %d streams, %d URIs, %d quotas, %d bytes", streams, uris, quotas, bytes)
		}
	})
}

// SUB-01, SUB-03, SUB-04, SUB-06, STDIO-07, BASE-02: each of several subscriptions on
// one pipe is told what it asked for, with its own id of its own type.
func TestListenSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.modern()
		p.send(listen(7, `{"toolsListChanged":true}`))
		p.wants(acknowledged("7", `{"toolsListChanged":true}`))
		p.send(listen("7", everything))
		p.wants(acknowledged(`"7"`, everything))
		p.send(listen(8, `{"resourceSubscriptions":["file:///b"]}`))
		p.wants(acknowledged("8", `{"resourceSubscriptions":["file:///b"]}`))

		s.Changed(0)
		p.wants(of("7", mcp.NotificationToolsChanged, ""), of(`"7"`, mcp.NotificationToolsChanged, ""))
		s.Changed(1)
		p.wants(of(`"7"`, mcp.NotificationPromptsChanged, ""))
		s.Changed(2)
		p.wants(of(`"7"`, mcp.NotificationResourcesChanged, ""))
		s.ResourceUpdated("file:///b")
		p.wants(of("8", mcp.NotificationResourceUpdated, `"uri":"file:///b"`))
		s.ResourceUpdated("file:///a/deep")
		p.wants(of(`"7"`, mcp.NotificationResourceUpdated, `"uri":"file:///a/deep"`))
		s.ResourceUpdated("file:///other")
		p.silent()

		p.expectError(listen(7, `{}`), mcp.CodeInvalidRequest, "7") // BASE-05
	})
}

// SUB-07, CANC-09: after the client's cancel nothing more is said, and nothing is left.
func TestListenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.modern()
		for range 2 { // the id is free again
			p.send(listen("L", everything))
			p.wants(acknowledged(`"L"`, everything))
			s.Changed(0) // before the cancel, and told after it
			p.send(cancelled(`"L"`))
			time.Sleep(time.Second)
			s.ResourceUpdated("file:///a")
			time.Sleep(time.Second)
			p.silent()
			if streams, uris, _, quotas, bytes := s.Subscribed(); streams+uris+quotas+bytes != 0 {
				t.Errorf("left: %d streams, %d URIs, %d quotas, %d bytes", streams, uris, quotas, bytes)
			}
		}
	})
}

// CANC-08, SECA-12: nobody ends the subscription of another connection by its id, nor
// with the same id what is another's.
func TestListenOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p, q := serve(t, s), serve(t, s)
		p.modern()
		q.modern()
		p.send(listen("L", everything))
		p.wants(acknowledged(`"L"`, everything))
		q.send(cancelled(`"L"`))
		p.send(cancelled(`"l"`))
		p.send(cancelled("1"))
		q.silent()
		q.send(listen("L", `{}`))
		q.wants(acknowledged(`"L"`, `{}`))
		q.send(cancelled(`"L"`))
		q.silent()
		s.Changed(0)
		p.wants(of(`"L"`, mcp.NotificationToolsChanged, ""))
	})
}

// SUB-08, CANC-10: at the end of the server each subscription is answered, and then
// cancelled as stdio demands. It keeps nobody waiting.
func TestListenShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.modern()
		p.send(listen("L", everything))
		p.wants(acknowledged(`"L"`, everything))
		begun := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Shutdown took %v", took)
		}
		p.expectLine(ended(`"L"`))
		p.expectLine(cancelled(`"L"`))
		if line, ok := <-p.lines; ok {
			t.Errorf("got %s, want the end", line)
		}
	})
}

func (p *peer) expectLine(want string) {
	p.t.Helper()
	if got := p.receive(); !mcpschema.Equal([]byte(got), []byte(want)) {
		p.t.Errorf("got  %s\nwant %s", clip(got), want)
	}
}

// SUB-08: a client that has closed its end is still told, and not waited for.
func TestListenHungUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, &mcpserver.Options{Limits: mcpserver.Limits{Grace: time.Hour}})
		p := serve(t, s)
		p.modern()
		p.send(listen(1, `{}`))
		p.wants(acknowledged("1", `{}`))
		begun := time.Now()
		p.in.Close()
		p.expectLine(ended("1"))
		p.expectLine(cancelled("1"))
		if err := <-p.ended; err != nil || time.Since(begun) > time.Second {
			t.Errorf("Serve: %v after %v", err, time.Since(begun))
		}
	})
}

// SUB-12: no deadline ends a subscription.
func TestListenForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, &mcpserver.Options{Limits: mcpserver.Limits{CallTimeout: time.Minute}})
		p := serve(t, s)
		p.modern()
		p.send(listen(1, `{"toolsListChanged":true}`))
		p.wants(acknowledged("1", `{"toolsListChanged":true}`))
		time.Sleep(24 * time.Hour)
		p.silent()
		s.Changed(0)
		p.wants(of("1", mcp.NotificationToolsChanged, ""))
	})
}

// ROB-3: the streams of a client and the resources it watches are bounded.
func TestListenBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, &mcpserver.Options{Limits: mcpserver.Limits{MaxListens: 3, MaxSubscriptions: 5}})
		p, q := serve(t, s), serve(t, s)
		p.modern()
		q.modern()
		p.send(listen(1, `{"resourceSubscriptions":["x:1","x:2","x:3"]}`))
		p.wants(acknowledged("1", `{"resourceSubscriptions":["x:1","x:2","x:3"]}`))
		p.send(listen(2, `{"resourceSubscriptions":["x:1","x:2","x:3"]}`))
		p.wants(acknowledged("2", `{"resourceSubscriptions":["x:1","x:2"]}`))
		p.send(listen(3, `{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}`))
		p.wants(acknowledged("3", `{"toolsListChanged":true}`))
		p.expectError(listen(4, `{}`), mcp.CodeInternal, "4")
		q.send(listen(4, `{"resourceSubscriptions":["x:1"]}`)) // another client has its own
		q.wants(acknowledged("4", `{"resourceSubscriptions":["x:1"]}`))
		p.send(cancelled("1"))
		p.silent()
		p.send(listen(4, `{"resourceSubscriptions":["x:9"]}`))
		p.wants(acknowledged("4", `{"resourceSubscriptions":["x:9"]}`))
	})
}

// ROB-8: a thousand subscriptions that are opened and cancelled, or abandoned with
// their pipes, leave nothing.
func TestListenAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := fewer(1000)
		s := hub(t, &mcpserver.Options{Limits: mcpserver.Limits{MaxListens: many, MaxInFlight: many, MaxSubscriptions: many}})
		p := serve(t, s)
		p.modern()
		p.check = nil // the same line a thousand times
		for _, end := range []func(){
			func() {
				for i := range many {
					p.send(cancelled(fmt.Sprint(i)))
				}
			},
			func() { p.in.Close() },
		} {
			for i := range many {
				p.send(listen(i, fmt.Sprintf(`{"toolsListChanged":true,"resourceSubscriptions":["x:%d"]}`, i)))
				if line := p.receive(); i == 0 {
					t.Log(line)
				}
			}
			if streams, uris, _, quotas, _ := s.Subscribed(); streams != many || uris != many || quotas != 1 {
				t.Errorf("%d streams, %d URIs, %d quotas; want %d, %d, 1", streams, uris, quotas, many, many)
			}
			s.Changed(0)
			for range many {
				p.receive()
			}
			end()
			synctest.Wait()
			if streams, uris, _, quotas, bytes := s.Subscribed(); streams+uris+quotas+bytes != 0 {
				t.Errorf("left: %d streams, %d URIs, %d quotas, %d bytes", streams, uris, quotas, bytes)
			}
		}
		<-p.ended
	}) // newServer counts the actors that are left
}

// XTASK-14: tasks are told of on the streams that asked for them, to those who may know;
// without the extension that is -32021.
func TestListenTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		var tell func(id, params string)
		tell = s.SetTaskNews(mcpserver.TaskNews{
			May:      func(_ *mcpserver.Principal, id string) bool { return strings.HasPrefix(id, "mine") },
			Announce: func(id string) { tell(id, `{"taskId":"`+id+`"}`) },
		})
		p := serve(t, s)
		p.modern()
		p.check = nil // half a task is none
		got := p.expectError(listen(1, `{"taskIds":["mine1"]}`), mcp.CodeMissingClientCapability, "1")
		if caps, ok := got.MissingCapability(); !ok || len(caps.Extensions) != 1 || caps.Elicitation != nil {
			t.Errorf("the error names %s", got.Data)
		}
		with := strings.Replace(listen(1, `{"taskIds":["mine1","theirs","mine2","mine1"]}`),
			`{"elicitation":{"form":{}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		p.send(with)
		p.wants(acknowledged("1", `{"taskIds":["mine1","mine2"]}`),
			of("1", mcp.NotificationTask, `"taskId":"mine1"`), of("1", mcp.NotificationTask, `"taskId":"mine2"`))
		tell("mine2", `{"taskId":"mine2","status":"completed"}`)
		p.wants(of("1", mcp.NotificationTask, `"taskId":"mine2","status":"completed"`))
		tell("mine2", `{}`)
		p.wants(of("1", mcp.NotificationTask, ""))
		tell("theirs", `{"taskId":"theirs"}`)
		p.silent()
		p.send(cancelled("1"))
		p.silent()
		tell("mine2", `{"taskId":"mine2"}`)
		p.silent()
		if _, _, tasks, _, _ := s.Subscribed(); tasks != 0 {
			t.Errorf("%d tasks are listened for, want none", tasks)
		}
	})
}

// SUB-10, LOG-05, STDIO-06: what belongs to a request is not told on a listen stream,
// and what is told there on no other.
func TestListenApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hub(t, nil)
		p := serve(t, s)
		p.modern()
		p.send(listen("L", everything))
		p.wants(acknowledged(`"L"`, everything))
		p.send(request(mcp.V2026_07_28, 2, mcp.MethodCallTool,
			`{"name":"log","arguments":{"text":"x"},"_meta":{"io.modelcontextprotocol/logLevel":"debug","progressToken":"L"}}`))
		p.send(request(mcp.V2026_07_28, 3, mcp.MethodCallTool,
			`{"name":"steps","arguments":{"text":"x","n":2},"_meta":{"progressToken":3}}`))
		kinds := map[string]int{}
		for range 6 {
			line := p.receive()
			var m struct {
				Method string
				Params struct {
					Meta mcp.Meta `json:"_meta"`
				}
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			kinds[m.Method]++
			if m.Method != "" && !m.Params.Meta.SubscriptionID().IsZero() {
				t.Errorf("got %s on the subscription", line)
			}
		}
		if kinds[mcp.NotificationMessage] != 2 || kinds[mcp.NotificationProgress] != 2 || kinds[""] != 2 {
			t.Errorf("got %v, want 2 log messages, 2 of progress and 2 answers", kinds)
		}
		p.silent()
	})
}

// CAP-07: a middleware may refuse a subscription.
func TestListenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		s := hub(t, &mcpserver.Options{Middleware: []mcpserver.Middleware{
			func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
				seen = append(seen, in.Method)
				if in.ID == mcp.IntID(1) {
					return nil, mcp.Errorf(1403, "not for you")
				}
				if in.ID == mcp.IntID(2) {
					return nil, nil
				}
				return next(ctx)
			},
		}})
		p := serve(t, s)
		p.modern()
		p.expectError(listen(1, everything), 1403, "1")
		p.expectError(listen(2, everything), mcp.CodeInternal, "2")
		p.send(listen(3, `{}`))
		p.wants(acknowledged("3", `{}`))
		if want := []string{mcp.MethodListen, mcp.MethodListen, mcp.MethodListen}; !slices.Equal(seen, want) {
			t.Errorf("the middleware saw %v, want %v", seen, want)
		}
		if streams, _, _, quotas, _ := s.Subscribed(); streams != 1 || quotas != 1 {
			t.Errorf("%d streams, %d quotas, want 1 of each", streams, quotas)
		}
	})
}

// FuzzListen asks for all kinds of subscriptions: each is refused with one error, or
// acknowledged first and then answered at the end; nothing is left.
func FuzzListen(f *testing.F) {
	for _, seed := range []string{
		everything, `{}`, `null`, `{"toolsListChanged":null}`, `{"taskIds":["a"]}`, `{"resourceSubscriptions":["x:a","x:a",""]}`,
		`{"resourceSubscriptions":["file:///a/../b","\ud800","x:\u0000"]}`, `{"a":1,"a":2}`, `{"notifications":{}}`, `{"toolsListChanged":true}}`,
		`{"resourceSubscriptions":["` + strings.Repeat("/", 3000) + `"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, filter string) {
		if strings.ContainsAny(filter, "\r\n") {
			t.Skip("that is several lines")
		}
		synctest.Test(t, func(t *testing.T) {
			s := hub(t, nil)
			p := serve(t, s)
			p.modern()
			line := p.ask(listen(1, filter))
			var m struct {
				Method string
				Error  *mcp.Error
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("got %q: %v", line, err)
			}
			if m.Error != nil {
				p.silent()
				return
			}
			if m.Method != mcp.NotificationListenAcknowledged {
				t.Fatalf("got %s first, want the acknowledgement", line)
			}
			s.Changed(0)
			s.ResourceUpdated("file:///a/b")
			time.Sleep(time.Second)
			p.in.Close()
			var last string
			for line := range p.lines {
				p.checkMessage(line)
				if strings.Contains(line, `"id":1`) {
					last = line
				}
			}
			if !mcpschema.Equal([]byte(last), []byte(ended("1"))) {
				t.Errorf("got %s at the end", last)
			}
			if streams, uris, _, quotas, bytes := s.Subscribed(); streams+uris+quotas+bytes != 0 {
				t.Errorf("left: %d streams, %d URIs, %d quotas, %d bytes", streams, uris, quotas, bytes)
			}
		})
	})
}

package mcpclient

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/supervise"
)

// things is a server that has one of everything, called by its name.
func things(v mcp.Version, name string) *wire {
	return newWire(v, map[string]string{
		mcp.MethodListTools:             pageOf(mcp.MethodListTools, "", name),
		mcp.MethodListResources:         pageOf(mcp.MethodListResources, "", "x:"+name+"2", "x:"+name+"1"),
		mcp.MethodListResourceTemplates: pageOf(mcp.MethodListResourceTemplates, "", "x:{"+name+"}"),
		mcp.MethodListPrompts:           pageOf(mcp.MethodListPrompts, "", name),
		mcp.MethodReadResource:          `{"contents":[{"uri":"x:` + name + `","text":""}]}`,
		mcp.MethodGetPrompt:             `{"description":"` + name + `","messages":[]}`,
		mcp.MethodComplete:              `{"completion":{"values":["` + name + `"]}}`,
		mcp.MethodCallTool:              `{"content":[{"type":"text","text":"` + name + `"}]}`,
	})
}

// catalogueOf is what a host has, in one line.
func catalogueOf(t *testing.T, h *Host) string {
	t.Helper()
	tools, errA := h.Tools(t.Context())
	resources, errB := h.Resources(t.Context())
	templates, errC := h.ResourceTemplates(t.Context())
	prompts, errD := h.Prompts(t.Context())
	if err := errors.Join(errA, errB, errC, errD); err != nil {
		t.Error(err)
	}
	return strings.Join(slices.Concat(
		namesOf(tools, func(x Tool) string { return x.Server + " " + x.Tool.Name }),
		namesOf(resources, func(x Resource) string { return x.Server + " " + x.Resource.URI }),
		namesOf(templates, func(x ResourceTemplate) string { return x.Server + " " + x.Template.URITemplate }),
		namesOf(prompts, func(x Prompt) string { return x.Server + " " + x.Prompt.Name }),
	), ", ")
}

// TOOL-02, RES-02, PRM-01: the lists of all servers are merged in an order that does
// not depend on anything; each thing is had from its server.
func TestMergedCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		little := newWire(mcp.V2025_11_25, nil)
		little.caps = `{}`
		h := hostOf(t, map[string]*wire{"b": things(mcp.V2024_11_05, "q"), "a": things(mcp.V2026_07_28, "p"), "c": things(mcp.V2025_11_25, "p"), "little": little}, nil)
		want := "a p, b q, c p, a x:p1, a x:p2, b x:q1, b x:q2, c x:p1, c x:p2, a x:{p}, b x:{q}, c x:{p}, a p, b q, c p"
		for range 2 {
			if got := catalogueOf(t, h); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		for server, name := range map[string]string{"a": "p", "b": "q"} {
			res, errA := h.ReadResource(t.Context(), server, "x:a", nil)
			prompt, errB := h.GetPrompt(t.Context(), server, "any", nil, nil)
			values, errC := h.Complete(t.Context(), server, completionOf("x"))
			if err := errors.Join(errA, errB, errC); err != nil {
				t.Fatal(err)
			}
			if res.Contents[0].URI != "x:"+name || prompt.Description != name || values.Values[0] != name {
				t.Errorf("%s: got %v, %v and %v", server, res.Contents[0].URI, prompt.Description, values.Values)
			}
		}
		_, errA := h.ReadResource(t.Context(), "nobody", "x:a", nil)
		_, errB := h.GetPrompt(t.Context(), "nobody", "any", nil, nil)
		_, errC := h.Complete(t.Context(), "nobody", completionOf("x"))
		if errA == nil || errB == nil || errC == nil || h.Retry("nobody") == nil {
			t.Error("a server that there is not: got no error")
		}
		if _, err := h.ReadResource(t.Context(), "little", "x:a", nil); !errors.Is(err, ErrUnsupported) { // CAP-03
			t.Errorf("ReadResource of a server that has none: got %v", err)
		}
	})
}

// The last good lists stay while a server is down; its status says why there are no
// newer ones. A list that was refused does not hide the others.
func TestCatalogueWhileAServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
			w := things(v, "p")
			h := hostOf(t, map[string]*wire{"a": w, "b": things(v, "q")}, nil)
			all := catalogueOf(t, h)
			w.methods[mcp.MethodListPrompts] = func(*mcp.Message) string { return `!{"code":-32603,"message":"prompts are out"}` }
			time.Sleep(time.Second)
			w.notify(mcp.NotificationPromptsChanged, `{}`)
			time.Sleep(time.Second)
			if got := catalogueOf(t, h); got != all {
				t.Errorf("%s: after a refusal: got %s, want %s", v, got, all)
			}
			if s := statusOf(h, "a"); s.ListErr == nil || !strings.Contains(s.ListErr.Error(), "prompts are out") || s.State != conn.Ready {
				t.Errorf("%s: after a refusal: got %v, %v", v, s.State, s.ListErr)
			}
			w.cut(true)
			time.Sleep(5 * time.Second)
			if got := catalogueOf(t, h); got != all {
				t.Errorf("%s: while it is down: got %s, want %s", v, got, all)
			}
			if s := statusOf(h, "a"); s.State != conn.Backoff && s.State != conn.Dialing || s.Failures < 3 || s.Info.Version != v || s.Tools != 1 || s.ListErr == nil {
				t.Errorf("%s: while it is down: got %+v", v, s)
			}
		}
	})
}

func statusOf(h *Host, name string) ServerStatus {
	for _, s := range h.Servers() {
		if s.Name == name {
			return s
		}
	}
	return ServerStatus{}
}

// Events say what has changed; lists that nobody has asked for are not read for that.
func TestChangeEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []string
		w := things(mcp.V2025_11_25, "p")
		h := hostOf(t, map[string]*wire{"a": w}, &HostOptions{OnEvent: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.ToolsChanged || e.ResourcesChanged || e.PromptsChanged {
				events = append(events, fmt.Sprint(e.Server, e.ToolsChanged, e.ResourcesChanged, e.PromptsChanged, e.Status.State))
			}
		}})
		if _, err := h.Prompts(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.heard()
		for _, notice := range []string{mcp.NotificationResourcesChanged, mcp.NotificationPromptsChanged} {
			w.notify(notice, `{}`)
			time.Sleep(time.Second)
		}
		if got := w.heard(); !slices.Equal(got, []string{mcp.MethodListPrompts}) {
			t.Errorf("asked for %v, want the prompts alone", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"afalse true false ready", "afalse false true ready"}; !slices.Equal(events, want) {
			t.Errorf("events: got %q, want %q", events, want)
		}
	})
}

// Retry ends a pause, also a very long one; calls that fail at once because of one
// loss share one new connection.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := things(mcp.V2025_11_25, "p")
		var dials atomic.Int32
		s := InProcess("a", connector(func(sink mcp.Sink) (mcp.Link, error) { dials.Add(1); return w.Connect(sink) }))
		h, err := NewHost(newSystem(t), []Server{s, {Name: "off", Command: "x", Disabled: true}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		if _, err := h.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.methods[mcp.MethodCallTool] = func(*mcp.Message) string { return "" }
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				if _, err := h.Call(t.Context(), "a__p", nil, nil); !errors.Is(err, call.ErrConnectionLost) {
					t.Errorf("Call: got %v, want %v", err, call.ErrConnectionLost)
				}
			})
		}
		synctest.Wait()
		before := dials.Load()
		w.cut(false)
		wait.Wait()
		time.Sleep(time.Minute)
		if n := dials.Load() - before; n != 1 {
			t.Errorf("20 calls that were lost at once led to %d connections, want 1", n)
		}

		w.cut(true)
		time.Sleep(time.Hour) // the pauses are long by now
		w.mu.Lock()
		w.down = false
		w.mu.Unlock()
		for range 3 {
			if err := h.Retry("a"); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if s := statusOf(h, "a"); s.State != conn.Ready {
			t.Errorf("after Retry: got %v, %v", s.State, s.Err)
		}
		before = dials.Load()
		if err := h.Retry("a"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := dials.Load(); n != before {
			t.Error("a server that is ready was connected to anew")
		}
		if h.Retry("off") == nil {
			t.Error("a disabled server: got no error")
		}

		// One whose actor has stopped is made anew at once, and once only.
		c, _ := h.Client("a")
		c.conn.Ref().Stop()
		<-c.conn.Ref().Stopped()
		synctest.Wait()
		if err := h.Retry("a"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := statusOf(h, "a"); s.State != conn.Ready {
			t.Errorf("after Retry of one that had stopped: got %v, %v", s.State, s.Err)
		}
		before = dials.Load()
		time.Sleep(2 * supervise.Delay)
		if n := dials.Load(); n != before {
			t.Errorf("it was started %d times more", n-before)
		}
	})
}

// connector is a function as a [Connector].
type connector func(mcp.Sink) (mcp.Link, error)

func (c connector) Connect(sink mcp.Sink) (mcp.Link, error) { return c(sink) }

// SECA-47: a host tells whose lists they are by the server.
func TestHostPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2026_07_28, map[string]string{mcp.MethodReadResource: `{"contents":[],"ttlMs":60000,"cacheScope":"private"}`})
		var who atomic.Value
		who.Store("ann")
		h := hostOf(t, map[string]*wire{"a": w}, &HostOptions{Options: Options{Principal: func(server string) string { return server + " " + who.Load().(string) }}})
		for _, tt := range []struct {
			who string
			n   int
		}{{"ann", 1}, {"ann", 0}, {"bob", 1}} {
			who.Store(tt.who)
			if _, err := h.ReadResource(t.Context(), "a", "x:a", nil); err != nil {
				t.Fatal(err)
			}
			if n := len(w.heard()); n != tt.n {
				t.Errorf("%s: asked %d times, want %d", tt.who, n, tt.n)
			}
		}
	})
}

package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/gathering"
)

// listers are the four lists as a client reads them, in a form to be compared.
var listers = map[string]func(*Client, context.Context) ([]string, error){
	mcp.MethodListTools: func(c *Client, ctx context.Context) ([]string, error) {
		all, err := c.ListTools(ctx)
		return namesOf(all, func(t mcp.Tool) string { return t.Name }), err
	},
	mcp.MethodListResources: func(c *Client, ctx context.Context) ([]string, error) {
		all, err := c.ListResources(ctx)
		return namesOf(all, func(r mcp.Resource) string { return r.URI }), err
	},
	mcp.MethodListResourceTemplates: func(c *Client, ctx context.Context) ([]string, error) {
		all, err := c.ListResourceTemplates(ctx)
		return namesOf(all, func(r mcp.ResourceTemplate) string { return r.URITemplate }), err
	},
	mcp.MethodListPrompts: func(c *Client, ctx context.Context) ([]string, error) {
		all, err := c.ListPrompts(ctx)
		return namesOf(all, func(p mcp.Prompt) string { return p.Name }), err
	},
}

func namesOf[T any](all []T, name func(T) string) (out []string) {
	for _, t := range all {
		out = append(out, name(t))
	}
	return out
}

// pageOf is a page of a list: its items by name, and the rest of the result.
func pageOf(method, rest string, names ...string) string {
	var items []string
	what := map[string]string{mcp.MethodListTools: "tools", mcp.MethodListResources: "resources",
		mcp.MethodListResourceTemplates: "resourceTemplates", mcp.MethodListPrompts: "prompts"}[method]
	for _, name := range names {
		items = append(items, map[string]string{
			mcp.MethodListTools:             fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name),
			mcp.MethodListResources:         fmt.Sprintf(`{"uri":%q,"name":"n"}`, name),
			mcp.MethodListResourceTemplates: fmt.Sprintf(`{"uriTemplate":%q,"name":"n"}`, name),
			mcp.MethodListPrompts:           fmt.Sprintf(`{"name":%q}`, name),
		}[method])
	}
	if rest != "" {
		rest = "," + rest
	}
	return fmt.Sprintf(`{"%s":[%s]%s}`, what, strings.Join(items, ","), rest)
}

// PAGE-01, PAGE-02, PAGE-03, PAGE-04, PAGE-06: all four lists are paged alike: any
// cursor is sent back, also the empty one, until there is none or one comes again.
// Items that are no good, or come twice, are left out (BASE-13).
func TestEveryListIsPaged(t *testing.T) {
	for method, list := range listers {
		for _, version := range []mcp.Version{mcp.V2024_11_05, mcp.V2026_07_28} {
			t.Run(fmt.Sprint(method, " ", version), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(version, nil)
					var asked []string
					w.methods[method] = func(m *mcp.Message) string {
						asked = append(asked, cursorOf(m))
						switch len(asked) {
						case 1:
							return pageOf(method, `"nextCursor":""`, "x:b", "x:a", "")
						case 2:
							return pageOf(method, `"nextCursor":"z"`)
						case 3:
							return pageOf(method, `"nextCursor":""`, "x:a", "x:c")
						}
						return pageOf(method, "", "x:never")
					}
					got, err := list(w.dial(t, nil), t.Context())
					if want := []string{"x:b", "x:a", "x:c"}; err != nil || !slices.Equal(got, want) {
						t.Errorf("got %v, %v, want %v", got, err, want)
					}
					if want := []string{"-", "", "z"}; !slices.Equal(asked, want) {
						t.Errorf("cursors: got %q, want %q", asked, want)
					}
				})
			})
		}
	}
}

// CACHE-01, CACHE-02: a page is kept for its ttlMs, in 2026-07-28; nought, nothing and less is
// stale at once. Legacy lists are kept until the server says that they have changed.
func TestListsAreKept(t *testing.T) {
	tests := []struct {
		version mcp.Version
		rest    string
		keeps   time.Duration
	}{
		{mcp.V2026_07_28, `"ttlMs":5000,"cacheScope":"public"`, 5 * time.Second},
		{mcp.V2026_07_28, `"ttlMs":5000`, 5 * time.Second},
		{mcp.V2026_07_28, `"ttlMs":0,"cacheScope":"public"`, 0},
		{mcp.V2026_07_28, `"ttlMs":-7,"cacheScope":"public"`, 0},
		{mcp.V2026_07_28, ``, 0},
		{mcp.V2026_07_28, `"ttlMs":9223372036854775807`, time.Hour},
		{mcp.V2025_11_25, ``, time.Hour},
		{mcp.V2025_11_25, `"ttlMs":1`, time.Hour},
	}
	for method, list := range listers {
		for _, tt := range tests {
			t.Run(fmt.Sprint(method, " ", tt.version, " ", tt.rest), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(tt.version, map[string]string{method: pageOf(method, tt.rest, "x:a")})
					c := w.dial(t, nil)
					read := func() int {
						if got, err := list(c, t.Context()); err != nil || !slices.Equal(got, []string{"x:a"}) {
							t.Errorf("got %v, %v", got, err)
						}
						return len(w.heard())
					}
					if n := read(); n != 1 {
						t.Errorf("at first: asked %d times", n)
					}
					time.Sleep(tt.keeps - time.Millisecond)
					if n := read(); tt.keeps > 0 && n != 0 {
						t.Errorf("just before the end: asked %d times", n)
					}
					time.Sleep(time.Millisecond)
					if n := read(); tt.keeps < time.Hour && n != 1 {
						t.Errorf("at the end: asked %d times", n)
					}
					time.Sleep(time.Hour) // CACHE-07: nothing asks by itself
					if n := len(w.heard()); n != 0 {
						t.Errorf("asked %d times without a reason", n)
					}
				})
			})
		}
	}
}

// CACHE-08: each page has its own clock; a stale one is asked for by its cursor
// alone. A cursor that is not valid any more begins the list anew (PAGE-05).
func TestPagesAgeByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		method := mcp.MethodListTools
		w := newWire(mcp.V2026_07_28, nil)
		var asked []string
		second := "two"
		w.methods[method] = func(m *mcp.Message) string {
			cursor := cursorOf(m)
			asked = append(asked, cursor)
			switch cursor {
			case "-":
				return pageOf(method, `"nextCursor":"`+second+`","ttlMs":10000`, "a")
			case second:
				return pageOf(method, `"nextCursor":"three","ttlMs":1000`, "b"+second)
			case "three":
				return pageOf(method, `"ttlMs":10000`, "c")
			}
			return `!{"code":-32602,"message":"unknown cursor"}`
		}
		c := w.dial(t, nil)
		check := func(names, cursors string) {
			t.Helper()
			got, err := listers[method](c, t.Context())
			if err != nil || strings.Join(got, " ") != names || strings.Join(asked, " ") != cursors {
				t.Errorf("got %v, %v by cursors %q, want %s by %s", got, err, asked, names, cursors)
			}
			asked = nil
		}
		check("a btwo c", "- two three")
		time.Sleep(2 * time.Second)
		check("a btwo c", "two")
		time.Sleep(2 * time.Second)
		second = "zwei"
		check("a bzwei c", "two - zwei three")
		time.Sleep(9 * time.Second) // the first and the third are still the old ones' age
		check("a bzwei c", "zwei")
		time.Sleep(2 * time.Second)
		check("a bzwei c", "- zwei three")
	})
}

// A list that is the same when it is read again is the same slice: whoever has made
// something of it need not do so again.
func TestUnchangedListIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2026_07_28, map[string]string{mcp.MethodListTools: pageOf(mcp.MethodListTools, "", "a")})
		c := w.dial(t, nil)
		one, _ := c.ListTools(t.Context())
		two, err := c.ListTools(t.Context())
		if err != nil || len(w.heard()) != 2 || !gathering.Same(one, two) {
			t.Errorf("got %p and %p, %v", one, two, err)
		}
	})
}

// CACHE-05, SECA-47: what is private, or not said to be public, is not for another
// principal; also not for one that came while it was being read.
func TestPrivateLists(t *testing.T) {
	for scope, shared := range map[string]bool{`"cacheScope":"public",`: true, `"cacheScope":"private",`: false, `"cacheScope":"odd",`: false, ``: false} {
		for method, list := range listers {
			t.Run(scope+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var who atomic.Value
					who.Store("ann")
					w := newWire(mcp.V2026_07_28, nil)
					slow := time.Duration(0)
					w.methods[method] = func(*mcp.Message) string {
						answer := pageOf(method, scope+`"ttlMs":60000`, "x:"+who.Load().(string))
						time.Sleep(slow)
						return answer
					}
					c := w.dial(t, &Options{Principal: func(string) string { return who.Load().(string) }})
					for i, tt := range []struct{ who, sees string }{{"ann", "x:ann"}, {"bob", "x:bob"}, {"ann", "x:ann"}} {
						who.Store(tt.who)
						if shared && i > 0 {
							tt.sees = "x:ann" // as it was read for her
						}
						if got, err := list(c, t.Context()); err != nil || got[0] != tt.sees {
							t.Errorf("%s sees %v, %v, want %s", tt.who, got, err, tt.sees)
						}
					}
					if shared {
						return
					}
					slow = time.Second
					who.Store("eve")
					var wait sync.WaitGroup
					wait.Go(func() {
						if got, err := list(c, t.Context()); err != nil || got[0] != "x:eve" {
							t.Errorf("eve sees %v, %v", got, err)
						}
					})
					synctest.Wait()
					who.Store("bob")
					if got, err := list(c, t.Context()); err != nil || got[0] != "x:bob" {
						t.Errorf("bob, who came meanwhile, sees %v, %v", got, err)
					}
					wait.Wait()
				})
			})
		}
	}
}

// TOOL-13, RES-06, PRM-05, CACHE-06: a change notice makes its list stale at once,
// whatever its ttl, and no other. A burst is told of once.
func TestChangeNotices(t *testing.T) {
	tests := []struct {
		notice string
		stale  []string
		told   string
	}{
		{mcp.NotificationToolsChanged, []string{mcp.MethodListTools}, "tools"},
		{mcp.NotificationResourcesChanged, []string{mcp.MethodListResources, mcp.MethodListResourceTemplates}, "resources"},
		{mcp.NotificationPromptsChanged, []string{mcp.MethodListPrompts}, "prompts"},
		{mcp.NotificationResourceUpdated, nil, ""},
	}
	for _, tt := range tests {
		for _, version := range []mcp.Version{mcp.V2025_06_18, mcp.V2026_07_28} {
			t.Run(fmt.Sprint(tt.notice, " ", version), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(version, nil)
					for method := range listers {
						answer := pageOf(method, `"ttlMs":3600000`, "x:a")
						w.methods[method] = func(*mcp.Message) string { return answer }
					}
					var mu sync.Mutex
					var told []string
					tell := func(what string) func() {
						return func() { mu.Lock(); defer mu.Unlock(); told = append(told, what) }
					}
					c := w.dial(t, &Options{OnToolsChanged: tell("tools"), OnResourcesChanged: tell("resources"), OnPromptsChanged: tell("prompts")})
					read := func() []string {
						for _, list := range listers {
							if _, err := list(c, t.Context()); err != nil {
								t.Error(err)
							}
						}
						heard := w.heard()
						slices.Sort(heard)
						return heard
					}
					if got := read(); len(got) != 4 {
						t.Errorf("at first: got %v", got)
					}
					time.Sleep(time.Second) // for the stream of a modern server
					for range 5 {
						if tt.stale == nil && version.Era() == mcp.EraModern {
							break // it was not asked for
						}
						w.notify(tt.notice, `{"uri":"x:a"}`)
					}
					synctest.Wait()
					if got := read(); !slices.Equal(got, slices.Sorted(slices.Values(tt.stale))) {
						t.Errorf("after the notice: asked for %v, want %v", got, tt.stale)
					}
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					if got := strings.Join(told, " "); got != tt.told {
						t.Errorf("told of %q, want %q", got, tt.told)
					}
				})
			})
		}
	}
}

// All who ask at once wait for one reading. What was read before a change is not
// kept, and who asks after it does not get it.
func TestOneReadingForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, nil)
		var n atomic.Int32
		w.methods[mcp.MethodListPrompts] = func(*mcp.Message) string {
			name := fmt.Sprint("p", n.Add(1))
			time.Sleep(time.Second)
			return pageOf(mcp.MethodListPrompts, "", name)
		}
		c := w.dial(t, nil)
		var wait sync.WaitGroup
		read := func(want string) {
			wait.Go(func() {
				if got, err := c.ListPrompts(t.Context()); err != nil || got[0].Name != want {
					t.Errorf("ListPrompts: got %v, %v, want %s", got, err, want)
				}
			})
		}
		for range 10 {
			read("p1")
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.ListPrompts(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one who gives up: got %v", err)
		}
		w.notify(mcp.NotificationPromptsChanged, `{}`)
		read("p2")
		wait.Wait()
		read("p2")
		wait.Wait()
		if got := n.Load(); got != 2 {
			t.Errorf("read %d times, want 2", got)
		}
	})
}

// CACHE-07: a list that is only out of date takes the place of one that cannot be
// read for want of a connection, and the log says so; not if it has changed, not for
// long, not for another principal, and not if the server answers with an error.
func TestStaleListOnErrors(t *testing.T) {
	tests := []struct {
		name   string
		before func(w *wire, who *atomic.Value) // after the list was read
		served bool
	}{
		{"down", func(w *wire, _ *atomic.Value) { w.cut(true) }, true},
		{"changed", func(w *wire, _ *atomic.Value) {
			w.notify(mcp.NotificationToolsChanged, `{}`)
			synctest.Wait()
			w.cut(true)
		}, false},
		{"too old", func(w *wire, _ *atomic.Value) { w.cut(true); time.Sleep(11 * time.Minute) }, false},
		{"another's", func(w *wire, who *atomic.Value) { who.Store("bob"); w.cut(true) }, false},
		{"refused", func(w *wire, _ *atomic.Value) {
			w.methods[mcp.MethodListTools] = func(*mcp.Message) string { return `!{"code":-32603,"message":"no"}` }
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(mcp.V2026_07_28, map[string]string{mcp.MethodListTools: pageOf(mcp.MethodListTools, `"ttlMs":500`, "a")})
				var who atomic.Value
				who.Store("ann")
				var log syncBuilder
				c := w.dial(t, &Options{Logger: logTo(&log), Principal: func(string) string { return who.Load().(string) }})
				if _, err := c.ListTools(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second) // it is out of date
				tt.before(w, &who)
				got, err := c.ListTools(t.Context())
				if served := err == nil; served != tt.served || served != (len(got) == 1) || served != strings.Contains(log.String(), "stale=true") {
					t.Errorf("ListTools: got %v, %v, want served %v; log %v", got, err, tt.served, strings.Contains(log.String(), "stale=true"))
				}
			})
		})
	}
}

// A server that has no such thing has an empty list of it (CAP-03), also one that
// has resources and has forgotten templates.
func TestListsOfLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, nil)
		w.caps = `{}`
		c := w.dial(t, nil)
		for method, list := range listers {
			if got, err := list(c, t.Context()); len(got) != 0 || err != nil {
				t.Errorf("%s: got %v, %v", method, got, err)
			}
		}
		if got := w.heard(); len(got) != 0 {
			t.Errorf("asked for %v", got)
		}
		w = newWire(mcp.V2025_11_25, nil)
		if got, err := w.dial(t, nil).ListResourceTemplates(t.Context()); len(got) != 0 || err != nil {
			t.Errorf("templates: got %v, %v", got, err)
		}
	})
}

// Closing ends a list that is being read.
func TestCloseEndsAListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, nil)
		w.methods[mcp.MethodListTools] = func(*mcp.Message) string { return "" }
		c := w.dial(t, nil)
		reply := new(actors.Reply[error])
		go func() {
			_, err := c.ListTools(context.Background())
			reply.Complete(err, nil)
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err, _ := reply.Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("ListTools: got %v, want %v", err, ErrClosed)
		}
	})
}

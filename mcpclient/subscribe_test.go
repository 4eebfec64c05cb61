package mcpclient

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// announcer is a server that tells of changes.
type announcer struct {
	*asker
	accept func(wish string) string // of a listen's filter; nil accepts all
	lists  int                      // tools/list that were answered
}

const (
	subscribeCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{}}`
	silentCaps    = `{"tools":{},"resources":{},"prompts":{}}`
)

func newAnnouncer(t *testing.T, v mcp.Version, caps string) *announcer {
	a := &announcer{asker: newAsker(t, v)}
	a.on[mcp.MethodInitialize] = func(_ *asker, m *mcp.Message) string {
		return resultOf(m, `{"protocolVersion":"`+string(v)+`","capabilities":`+caps+`,"serverInfo":{"name":"x","version":"1"}}`)
	}
	a.on[mcp.MethodDiscover] = func(_ *asker, m *mcp.Message) string {
		return resultOf(m, `{"resultType":"complete","supportedVersions":["`+string(v)+`"],"capabilities":`+caps+`}`)
	}
	a.on[mcp.MethodListTools] = func(_ *asker, m *mcp.Message) string {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lists++
		return resultOf(m, `{"resultType":"complete","ttlMs":360000000,"tools":[]}`)
	}
	for _, method := range []string{mcp.MethodSubscribe, mcp.MethodUnsubscribe} {
		a.on[method] = func(_ *asker, m *mcp.Message) string { return resultOf(m, `{}`) }
	}
	a.on[mcp.MethodListen] = func(_ *asker, m *mcp.Message) string {
		filter := filterOf(m)
		if a.accept != nil {
			filter = a.accept(filter)
		}
		if filter != "" {
			a.notify(mcp.NotificationListenAcknowledged, m.ID.String(), `,"notifications":`+filter)
		}
		return "" // the answer is the end
	}
	return a
}

func filterOf(m *mcp.Message) string {
	var p struct {
		Notifications mcp.SubscriptionFilter `json:"notifications"`
	}
	if err := m.DecodeParams(&p); err != nil {
		return err.Error()
	}
	raw, _ := mcp.Marshal(&p.Notifications)
	return string(raw)
}

// notify says something on a subscription.
func (a *announcer) notify(method, id, more string) {
	a.say(`{"jsonrpc":"2.0","method":"` + method + `","params":{"_meta":{"` + mcp.MetaSubscriptionID + `":` + id + `}` + more + `}}`)
}

// open are the subscriptions that the client has asked for and not withdrawn.
func (a *announcer) open() (ids []mcp.ID, filters []string) {
	synctest.Wait()
	withdrawn := map[mcp.ID]bool{}
	for _, m := range a.requests(mcp.NotificationCancelled) {
		var p mcp.CancelledParams
		_ = m.DecodeParams(&p)
		withdrawn[p.RequestID] = true
	}
	for _, m := range a.requests(mcp.MethodListen) {
		if !withdrawn[m.ID] {
			ids = append(ids, m.ID)
			filters = append(filters, filterOf(&m))
		}
	}
	return ids, filters
}

func (a *announcer) listed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists
}

func (a *announcer) die() {
	a.mu.Lock()
	p := a.proc
	a.mu.Unlock()
	p.end("signal: killed")
}

// heard collects what callbacks say.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) add(s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, s)
}

func (h *heard) notice(n Notice) { h.add(strings.TrimSpace(n.Kind.String() + " " + n.URI)) }

func (h *heard) String() string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all, ", ")
}

// RES-05, STDIO-24: a legacy subscription is made once for all who want it, anew after
// the server was started anew, and ended by the last.
func TestSubscribeLegacy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAnnouncer(t, mcp.V2025_06_18, subscribeCaps)
		c := a.dial(&Options{})
		var one, two heard
		first, err := c.Subscribe(t.Context(), "file:///d", one.add)
		if err != nil {
			t.Fatal(err)
		}
		second, err := c.Subscribe(t.Context(), "file:///d", two.add)
		if err != nil {
			t.Fatal(err)
		}
		a.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///d/x"}}`)
		a.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///e"}}`)
		if one.String() != "file:///d/x" || two.String() != "file:///d/x" {
			t.Errorf("heard %q and %q", one.String(), two.String())
		}
		if n := len(a.requests(mcp.MethodSubscribe)); n != 1 {
			t.Errorf("subscribed %d times, want once", n)
		}
		a.die()
		time.Sleep(10 * time.Second)
		if err := c.Ping(t.Context()); err == nil {
			t.Log("pinged")
		}
		if n := len(a.requests(mcp.MethodSubscribe)); n != 2 {
			t.Errorf("subscribed %d times after a restart, want twice", n)
		}
		if got := one.String(); got != "file:///d/x, file:///d" {
			t.Errorf("heard %q, want to read again", got)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(a.requests(mcp.MethodUnsubscribe)); n != 0 {
			t.Errorf("unsubscribed %d times while somebody listens", n)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		<-second.Done()
		synctest.Wait()
		if n := len(a.requests(mcp.MethodUnsubscribe)); n != 1 || second.Err() != nil {
			t.Errorf("unsubscribed %d times, want once (%v)", n, second.Err())
		}
	})
}

// CAP-03: what the server did not declare is not asked of it; what it refuses fails.
func TestSubscribeUnsupported(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2026_07_28} {
		inBubble(t, func(t *testing.T) {
			a := newAnnouncer(t, v, silentCaps)
			c := a.dial(&Options{})
			if _, err := c.Subscribe(t.Context(), "file:///d", nil); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%s: got %v, want %v", v, err, ErrUnsupported)
			}
			if _, err := c.Subscribe(t.Context(), "", nil); err == nil {
				t.Errorf("%s: no URI: got no error", v)
			}
			_, err := c.Listen(t.Context(), mcp.SubscriptionFilter{}, func(Notice) {})
			if v.Era() == mcp.EraLegacy && !errors.Is(err, ErrUnsupported) || v.Era() == mcp.EraModern && err != nil { // SUB-11
				t.Errorf("%s: Listen: got %v", v, err)
			}
		})
	}
	inBubble(t, func(t *testing.T) {
		a := newAnnouncer(t, mcp.V2025_06_18, subscribeCaps)
		a.on[mcp.MethodSubscribe] = func(_ *asker, m *mcp.Message) string { return errorOf(m, mcp.CodeResourceNotFound, "none") }
		c := a.dial(&Options{})
		if _, err := c.Subscribe(t.Context(), "file:///d", nil); !errors.Is(err, mcp.ErrResourceNotFound) {
			t.Errorf("refused: got %v", err)
		}
	})
}

// SUB-01, SUB-05, SUB-06, SUB-07, STDIO-07: resources and lists share one stream, which
// is opened anew for another wish; what the server leaves out of its acknowledgement is
// an error to who wished it.
func TestSubscribeModern(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAnnouncer(t, mcp.V2026_07_28, subscribeCaps)
		a.accept = func(wish string) string {
			return strings.NewReplacer(`,"file:///refused"`, "", `"file:///refused"`, "").Replace(wish)
		}
		c := a.dial(&Options{})
		if _, err := c.ListTools(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		var one, two heard
		first, err := c.Subscribe(t.Context(), "file:///a", one.add)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Subscribe(t.Context(), "file:///b", two.add); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Subscribe(t.Context(), "file:///refused", two.add); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a resource that is left out: got %v, want %v", err, ErrUnsupported)
		}
		time.Sleep(time.Second)
		ids, filters := a.open()
		if want := `{"toolsListChanged":true,"resourceSubscriptions":["file:///a","file:///b","file:///refused"]}`; len(ids) != 1 || filters[0] != want {
			t.Fatalf("open: %v %v, want one of %s", ids, filters, want)
		}
		a.notify(mcp.NotificationResourceUpdated, ids[0].String(), `,"uri":"file:///a"`)
		a.notify(mcp.NotificationResourceUpdated, ids[0].String(), `,"uri":"file:///c"`)
		a.notify(mcp.NotificationResourceUpdated, "99", `,"uri":"file:///b"`)                              // SUB-03
		a.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///b"}}`) // of no subscription
		if one.String() != "file:///a" || two.String() != "" {
			t.Errorf("heard %q and %q", one.String(), two.String())
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if ids, filters = a.open(); len(ids) != 1 || filters[0] != `{"toolsListChanged":true,"resourceSubscriptions":["file:///b"]}` {
			t.Errorf("open: %v %v", ids, filters)
		}
		a.die() // SUB-09, STDIO-23
		time.Sleep(10 * time.Second)
		if got := two.String(); got != "file:///b" {
			t.Errorf("heard %q after a restart, want to read again", got)
		}
	})
}

// SUB-01, TOOL-13, CACHE-06, SUB-09: once a list was asked for that the server announces
// changes of, it is listened for them, and the list read again after one, or after
// notices may have been missed.
func TestListsAreKeptFresh(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAnnouncer(t, mcp.V2026_07_28, subscribeCaps)
		var changed heard
		c := a.dial(&Options{OnToolsChanged: func() { changed.add("tools") }})
		list := func(want int) {
			t.Helper()
			if _, err := c.ListTools(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := a.listed(); n != want {
				t.Errorf("the list was read %d times, want %d", n, want)
			}
		}
		if ids, _ := a.open(); len(ids) != 0 {
			t.Error("listening before anybody wants a list")
		}
		list(1)
		list(1)
		time.Sleep(time.Second)
		ids, filters := a.open()
		if len(ids) != 1 || filters[0] != `{"toolsListChanged":true}` {
			t.Fatalf("open: %v %v", ids, filters)
		}
		a.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) // not on the subscription
		synctest.Wait()
		list(1)
		a.notify(mcp.NotificationToolsChanged, ids[0].String(), "")
		time.Sleep(time.Second)
		list(2)
		if got := changed.String(); got != "tools" {
			t.Errorf("heard %q", got)
		}
		// SUB-08: the server ends it, in order; later it is asked again.
		a.say(`{"jsonrpc":"2.0","id":` + ids[0].String() + `,"result":{"resultType":"complete","_meta":{"` + mcp.MetaSubscriptionID + `":` + ids[0].String() + `}}}`)
		a.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + ids[0].String() + `}}`)
		time.Sleep(time.Minute)
		if n := len(a.requests(mcp.MethodListen)); n != 2 {
			t.Errorf("asked %d times, want twice", n)
		}
		a.die()
		time.Sleep(time.Minute)
		list(3)
		if n := len(a.requests(mcp.MethodListen)); n != 3 {
			t.Errorf("asked %d times, want again after a restart", n)
		}
		if n := len(a.requests(mcp.NotificationCancelled)); n != 0 {
			t.Errorf("%d streams were withdrawn that had ended", n)
		}
	})
}

// No stream where the program wants none, the server announces nothing, or it refuses.
func TestListsAreNotListenedFor(t *testing.T) {
	tests := map[string]struct {
		caps   string
		opts   Options
		refuse bool
		want   int
	}{
		"not wanted": {subscribeCaps, Options{NoListen: true}, false, 0},
		"not there":  {silentCaps, Options{}, false, 0},
		"refused":    {subscribeCaps, Options{}, true, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := newAnnouncer(t, mcp.V2026_07_28, tt.caps)
				if tt.refuse {
					a.on[mcp.MethodListen] = func(_ *asker, m *mcp.Message) string { return unknownMethod(m.ID.String()) }
				}
				c := a.dial(&tt.opts)
				for range 3 {
					if _, err := c.ListTools(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
				}
				if n := len(a.requests(mcp.MethodListen)); n != tt.want {
					t.Errorf("asked to listen %d times, want %d", n, tt.want)
				}
				if tt.refuse {
					if _, err := c.Subscribe(t.Context(), "file:///d", nil); !errors.Is(err, ErrUnsupported) {
						t.Errorf("Subscribe: got %v, want %v", err, ErrUnsupported)
					}
				}
			})
		})
	}
}

// SUB-02, SUB-05, SUB-07, SUB-08, SUB-09, SUB-12: a subscription of the program's own.
func TestListen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAnnouncer(t, mcp.V2026_07_28, subscribeCaps)
		a.accept = func(string) string { return `{"toolsListChanged":true}` }
		c := a.dial(&Options{})
		var h heard
		wish := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true}
		s, err := c.Listen(t.Context(), wish, h.notice)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour) // no time limit
		ids, _ := a.open()
		a.notify(mcp.NotificationToolsChanged, ids[0].String(), "")
		a.notify(mcp.NotificationPromptsChanged, ids[0].String(), "")
		a.die()
		time.Sleep(time.Minute)
		if got, want := h.String(), "acknowledged, tools changed, acknowledged, missed"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		all := a.requests(mcp.MethodListen)
		ids, _ = a.open()
		if len(all) != 2 || slices.Contains(ids, all[1].ID) {
			t.Errorf("%d streams, open %v, want the last withdrawn", len(all), ids)
		}

		a.accept = func(string) string { return "" } // says nothing, and then no
		time.AfterFunc(time.Second, func() {
			m := a.requests(mcp.MethodListen)[2]
			a.say(errorOf(&m, mcp.CodeMissingClientCapability, "no"))
		})
		if _, err := c.Listen(t.Context(), wish, h.notice); !errors.Is(err, mcp.ErrMissingClientCapability) {
			t.Errorf("refused: got %v", err)
		}
		time.AfterFunc(time.Second, func() {
			m := a.requests(mcp.MethodListen)[3]
			a.say(resultOf(&m, `{"resultType":"complete"}`))
		})
		if _, err := c.Listen(t.Context(), wish, h.notice); err == nil {
			t.Error("ended at once: got no error")
		}
	})
}

// Closing a client does not wait for what it listens to, and leaves nothing.
func TestCloseWhileListening(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := newAnnouncer(t, v, subscribeCaps)
				c := a.dial(&Options{})
				var ends []*Subscription
				for i := range 5 {
					s, err := c.Subscribe(t.Context(), fmt.Sprint("file:///", i), func(string) {})
					if err != nil {
						t.Fatal(err)
					}
					ends = append(ends, s)
				}
				if v.Era() == mcp.EraModern {
					s, err := c.Listen(t.Context(), mcp.SubscriptionFilter{}, func(Notice) {})
					if err != nil {
						t.Fatal(err)
					}
					ends = append(ends, s)
				}
				closeIn(t, c, time.Second)
				for _, s := range ends {
					<-s.Done()
				}
				synctest.Wait()
				if n := c.sys.Census().Live(actors.KindSubscription, actors.KindTask, actors.KindCall); n != 0 {
					t.Errorf("%d actors are left", n)
				}
				if _, err := c.Subscribe(t.Context(), "file:///x", nil); err == nil {
					t.Error("Subscribe after Close: got no error")
				}
			})
		})
	}
}

package streams

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/troupe-dev/troupe/mcp"
)

// SHL-40: ids are unique over all streams of all sessions, and name their stream.
func TestEventIDs(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		other := k.set.NewSession()
		seen := make(map[string]bool)
		for _, session := range []*Session{k.streams, other} {
			for range 5 {
				s := session.Post(mcp.V2025_11_25)
				for n := range uint64(5) {
					id := session.log.id(s, n)
					if seen[id] {
						t.Errorf("the id %q is there twice", id)
					}
					seen[id] = true
					if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
						t.Errorf("the id %q can not be sent in a header", id)
					}
					if found, after, ok := session.log.find(id); !ok || found != s || after != n {
						t.Errorf("find(%q): got %v, %d, %t, want its stream, %d", id, found, after, ok, n)
					}
				}
			}
		}
	})
}

// SHL-41, SHL-43: a stream that is cut after any of its events goes on with the next,
// whatever it is a stream of.
func TestResumeAtEveryEvent(t *testing.T) {
	const count = 8
	for _, v := range []mcp.Version{mcp.V2025_03_26, mcp.V2025_06_18, mcp.V2025_11_25} {
		for cut := range count + 1 {
			t.Run(fmt.Sprintf("%s/%d", v, cut), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := newStreamKit(t, v, nil)
					s, r := k.post()
					get := k.get("")
					var last, lastGet string
					if v == mcp.V2025_11_25 {
						last, lastGet = r.prime(), get.prime()
					}
					for n := range cut {
						s.Send([]byte(nthMessage(n)))
						last = r.want(nthMessage(n))
						if err := k.streams.push([]byte(nthMessage(100 + n))); err != nil {
							t.Fatal(err)
						}
						lastGet = get.want(nthMessage(100 + n))
					}
					if last == "" {
						return // there is nothing to take up
					}
					r.resp.Body.Close()
					get.resp.Body.Close()
					synctest.Wait()
					for n := cut; n < count; n++ {
						s.Send([]byte(nthMessage(n)))
						if err := k.streams.push([]byte(nthMessage(100 + n))); err != nil {
							t.Fatal(err)
						}
					}
					r = k.get(last)
					r.want(nthMessages(cut, count-1)...)
					s.Finish([]byte(nthMessage(count)))
					r.want(nthMessage(count))
					r.wantEnd()
					get = k.get(lastGet)
					get.want(nthMessages(100+cut, 100+count-1)...)
					get.silent()
				})
			})
		}
	}
}

// SHL-41: nothing of another stream is replayed.
func TestReplayIsOfOneStream(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		a, ra := k.post()
		b, rb := k.post()
		firstA, firstB := ra.prime(), rb.prime()
		get := k.get("")
		firstGet := get.prime()
		for n := range 10 {
			a.Send([]byte(nthMessage(n)))
			b.Send([]byte(nthMessage(100 + n)))
			if err := k.streams.push([]byte(nthMessage(200 + n))); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range []*sseClient{ra, rb, get} {
			r.resp.Body.Close()
		}
		synctest.Wait()
		ra, rb, get = k.get(firstA), k.get(firstB), k.get(firstGet)
		ra.want(nthMessages(0, 9)...)
		rb.want(nthMessages(100, 109)...)
		get.want(nthMessages(200, 209)...)
		for _, r := range []*sseClient{ra, rb, get} {
			r.silent()
		}
	})
}

// SHL-41: a client may come again before its old connection is known to be dead.
func TestResumeTakesOver(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		s, old := k.post()
		first := old.prime()
		s.Send([]byte(nthMessage(1)))
		old.want(nthMessage(1))
		r := k.get(first)
		r.want(nthMessage(1))
		if err := <-k.served; err != errReplaced {
			t.Errorf("serve of the old connection: got %v, want %v", err, errReplaced)
		}
		s.Finish([]byte(nthMessage(2)))
		r.want(nthMessage(2))
		r.wantEnd()
	})
}

// SHL-42, SECA-7: an id that is not of this session, or not any more, is refused; not
// with 404, which would be the end of the session (SHL-52).
func TestEventIDRefused(t *testing.T) {
	inStreams(t, func(o *Options) { o.MaxEvents = 10 }, func(t *testing.T, k *streamKit) {
		other := k.set.NewSession() // of another client, with the same numbers
		theirs := other.Post(mcp.V2025_11_25)
		theirs.Send([]byte(`"a secret"`))
		foreign := other.log.id(theirs, 0)

		s, r := k.post()
		first := r.prime()
		s.Send([]byte(nthMessage(1)))
		last := r.want(nthMessage(1))
		old, o := k.post()
		expired := o.prime()
		for n := range 20 {
			old.Send([]byte(nthMessage(n)))
		}
		ended, e := k.post()
		over := e.prime()
		ended.End()
		e.wantEnd()
		for _, r := range []*sseClient{r, o} {
			r.resp.Body.Close()
		}
		synctest.Wait()

		tag, _, _ := strings.Cut(first, ".")
		for name, id := range map[string]string{
			"of another session": foreign,
			"other tag":          "AAAAAAAA" + strings.TrimPrefix(last, tag),
			"no stream":          tag + ".zz.0",
			"from the future":    tag + ".1.2",
			"expired":            expired,
			"of what is over":    over,
			"not canonical":      tag + ".01.0",
			"signed":             tag + ".+1.0",
			"the other case":     strings.Map(otherCase, last),
			"cut":                last[:len(last)-2],
			"longer":             last + ".0",
			"with a space":       last + " 1",
			"too large":          tag + ".1.zzzzzzzzzzzzzzzzz",
			"nothing of it":      "1",
			"long":               strings.Repeat("x", 4<<10),
		} {
			resp := k.do(http.MethodGet, id)
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s (%q): got status %d, want 400", name, id, resp.StatusCode)
			}
		}
		if got := other.Connections() + k.streams.Connections(); got != 0 {
			t.Errorf("%d connections are open, want none", got)
		}
	})
}

// A stream of GET goes on with what is left of it.
func TestResumeWithLoss(t *testing.T) {
	inStreams(t, func(o *Options) { o.MaxEvents = 3 }, func(t *testing.T, k *streamKit) {
		r := k.get("")
		first := r.prime()
		for n := range 10 {
			if err := k.streams.push([]byte(nthMessage(n))); err != nil {
				t.Fatal(err)
			}
		}
		r.want(nthMessages(0, 9)...)
		r = k.get(first)
		r.want(nthMessages(7, 9)...)
		r.resp.Body.Close()
		time.Sleep(maxAge + 2*k.set.KeepAlive)
		r = k.get(first)
		if err := k.streams.push([]byte(nthMessage(10))); err != nil {
			t.Fatal(err)
		}
		r.want(nthMessage(10))
	})
}

// A client without resumption is not offered any.
func TestNoResume(t *testing.T) {
	inStreams(t, func(o *Options) { o.NoResume = true }, func(t *testing.T, k *streamKit) {
		s, r := k.post()
		s.Send([]byte(nthMessage(1)))
		if e := r.next(); e.HasID || string(e.Data) != nthMessage(1) {
			t.Errorf("got %+v, want %s without an id", e, nthMessage(1))
		}
		g := k.get("x.1.1")
		if err := k.streams.push([]byte(nthMessage(2))); err != nil {
			t.Fatal(err)
		}
		if id := g.want(nthMessage(2)); id != "" {
			t.Errorf("got the id %q, want none", id)
		}
		if got := k.streams.Connections(); got != 1 {
			t.Errorf("got %d connections, want that of the GET", got)
		}
	})
}

// ROB-3, SECA-9: the log is bounded in events, bytes and time, over all its streams, and
// forgets the oldest first.
func TestEventLogBounds(t *testing.T) {
	tests := []struct {
		name   string
		events int
		bytes  int
		size   int
		want   int // events that are left of 100
	}{
		{"events", 10, 1 << 20, 10, 10},
		{"bytes", 1000, 10 << 10, 1000, 9},
		{"one that is too large", 1000, 1000, 2000, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inStreams(t, func(o *Options) { o.MaxEvents, o.MaxBytes = tt.events, tt.bytes }, func(t *testing.T, k *streamKit) {
				l := &k.streams.log
				a, b := k.streams.Post(k.version), k.streams.Post(k.version)
				for n := range 50 {
					a.Send(make([]byte, tt.size))
					b.Send(make([]byte, tt.size))
					if kept := len(l.entries) - l.head; kept != min(2*n+2, tt.want) {
						t.Fatalf("after %d events: got %d, want %d", 2*n+2, kept, min(2*n+2, tt.want))
					}
				}
				sum := 0
				for _, e := range l.entries[l.head:] {
					sum += len(e.event)
				}
				if sum != l.bytes || int64(sum) != k.set.logged.Load() || a.held+b.held != tt.want {
					t.Errorf("got %d and %d bytes for %d, %d events", l.bytes, k.set.logged.Load(), sum, a.held+b.held)
				}
				time.Sleep(maxAge + 2*k.set.KeepAlive)
				synctest.Wait()
				l.mu.Lock()
				defer l.mu.Unlock()
				if kept := len(l.entries) - l.head; kept != 0 || l.bytes != 0 || k.set.logged.Load() != 0 {
					t.Errorf("after their time: got %d events of %d bytes", kept, l.bytes)
				}
			})
		})
	}
}

// ROB-3: all sessions together do not keep more than a budget.
func TestEventLogBudget(t *testing.T) {
	inStreams(t, func(o *Options) { o.MaxBytes = maxLogged }, func(t *testing.T, k *streamKit) {
		frame := make([]byte, 1<<20)
		var all []*Session
		for range 4 {
			session := k.set.NewSession()
			all = append(all, session)
			s := session.Post(k.version)
			for range 40 {
				s.Send(frame)
				s.mutex().Lock()
				s.queue, s.queued = nil, 0
				s.mutex().Unlock()
			}
			if n := k.set.logged.Load(); n > maxLogged+4*(1<<20) {
				t.Fatalf("%d bytes are kept, want at most %d", n, maxLogged)
			}
		}
		for _, session := range all {
			if err := session.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := k.set.logged.Load(); n != 0 {
			t.Errorf("%d bytes are kept at the end", n)
		}
	})
}

// ROB-3: neither do very many sessions with one large event each.
func TestEventLogBudgetOfMany(t *testing.T) {
	inStreams(t, nil, func(t *testing.T, k *streamKit) {
		frame := make([]byte, 1<<20)
		for range 3 * maxLogged / len(frame) {
			session := k.set.NewSession()
			defer session.Close(t.Context())
			session.Post(k.version).Finish(frame)
		}
		if n := k.set.logged.Load(); n > 2*maxLogged {
			t.Errorf("%d bytes are kept, want at most %d", n, 2*maxLogged)
		}
	})
}

// Streams that have ended are forgotten with their last event.
func TestEventLogForgets(t *testing.T) {
	inStreams(t, func(o *Options) { o.MaxEvents = 5 }, func(t *testing.T, k *streamKit) {
		for n := range 50 {
			s, r := k.post()
			r.prime()
			s.Finish([]byte(nthMessage(n)))
			r.want(nthMessage(n))
			r.wantEnd()
			synctest.Wait()
		}
		if got := k.streams.log.known(); got != 5 {
			t.Errorf("got %d streams, want 5", got)
		}
		time.Sleep(maxAge + 2*k.set.KeepAlive)
		if got := k.streams.log.known(); got != 0 {
			t.Errorf("got %d streams after their time, want 0", got)
		}
	})
}

// FuzzEventID: an id is read as what was written, or not at all, and never leads to an
// event of another session or stream (SECA-7).
func FuzzEventID(f *testing.F) {
	for _, id := range []string{"", "AbCd_-12.1.0", "AbCd_-12.1.a", "AbCd_-12.01.0", ".1.0", "AbCd_-12.1", "AbCd_-12.1.0.0", "AbCd_-12.-1.0", "x.1.1", "AbCd_-12.2.1", "AbCd_-12.zzzzzzzzzzzzz.0", "AbCd_-12.1.A"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		h := NewSet(Options{KeepAlive: time.Hour, Retry: time.Second, MaxEvents: 10, MaxBytes: 1 << 10})
		defer h.Close()
		mine, other := h.NewSession(), h.NewSession()
		s, theirs := mine.Post(mcp.V2025_11_25), other.Post(mcp.V2025_11_25)
		mine.log.tag, other.log.tag = "AbCd_-12", "x"
		for range 3 {
			s.Send([]byte(`"mine"`))
			theirs.Send([]byte(`"theirs"`))
		}
		found, after, ok := mine.log.find(id)
		if !ok {
			return
		}
		if found != s || mine.log.id(found, after) != id {
			t.Fatalf("find(%q): got stream %d after %d", id, found.number, after)
		}
		s.fresh = false
		c := &deafConn{}
		if err := s.resume(c, after, time.Time{}); err != nil {
			if after <= 3 {
				t.Errorf("resume after %d: got %v", after, err)
			}
			return
		}
		events, _, ours := s.take(c, nil)
		if !ours || after > 3 || uint64(len(events)) != 3-after || slices.ContainsFunc(events, func(e []byte) bool { return strings.Contains(string(e), "theirs") }) {
			t.Errorf("resume after %d: got %q", after, events)
		}
	})
}

// deafConn is a connection that writes nothing.
type deafConn struct{ cause error }

func (c *deafConn) kick()         {}
func (c *deafConn) cut(err error) { c.cause = err }
func (c *deafConn) hurry()        {}

func (l *eventLog) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.streams)
}

// otherCase makes small letters capital and capital ones small: of a random tag all may be either.
func otherCase(c rune) rune {
	if unicode.IsUpper(c) {
		return unicode.ToLower(c)
	}
	return unicode.ToUpper(c)
}

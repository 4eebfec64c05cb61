package call_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors/call"
)

// Before is called once there is a connection, once, and the request is written after
// proceed only.
func TestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		var proceed func(error)
		asked := 0
		out := b.begin(t.Context(), &call.Request{Method: "tools/call", Before: func(p func(error)) { asked, proceed = asked+1, p }})
		synctest.Wait()
		if asked != 0 {
			t.Fatal("Before was called without a connection")
		}
		w := b.connect(1, func(_ *wire, s sent) { go b.result(1, s.ID, `{"ok":true}`) })
		synctest.Wait()
		if got := w.methods(); asked != 1 || len(got) != 0 {
			t.Fatalf("Before was called %d times, %v were sent: want once, and nothing before proceed", asked, got)
		}
		b.Lost(1, errors.New("gone"))
		w = b.connect(2, func(_ *wire, s sent) { go b.result(2, s.ID, `{"ok":true}`) })
		synctest.Wait()
		if got := w.methods(); asked != 1 || len(got) != 0 {
			t.Fatalf("Before was called %d times, %v were sent over the next connection: want once, and nothing before proceed", asked, got)
		}
		proceed(nil)
		proceed(errors.New("too late"))
		if got := <-out; got.err != nil || !slices.Equal(w.methods(), []string{"tools/call"}) {
			t.Errorf("got %v, sent %v", got.err, w.methods())
		}
	})
}

// A call that Before refuses, that ends meanwhile, or whose Before panics is not sent.
func TestBeforeUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := b.connect(1, nil)
		no := errors.New("no")
		got := <-b.begin(t.Context(), &call.Request{Method: "tools/call", Before: func(p func(error)) { p(no) }})
		if !errors.Is(got.err, no) {
			t.Errorf("refused: got %v, want %v", got.err, no)
		}
		got = <-b.begin(t.Context(), &call.Request{Method: "tools/call", Before: func(func(error)) { panic("oh") }})
		if got.err == nil {
			t.Error("a Before that panics: got no error")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var proceed func(error)
		out := b.begin(ctx, &call.Request{Method: "tools/call", Before: func(p func(error)) { proceed = p }})
		synctest.Wait()
		cancel(no)
		if got := <-out; !errors.Is(got.err, no) {
			t.Errorf("cancelled: got %v, want %v", got.err, no)
		}
		proceed(nil)
		synctest.Wait()
		if got := w.methods(); len(got) != 0 {
			t.Errorf("sent: got %v, want nothing", got)
		}
		if s := b.Stats(); s.Pending != 0 || s.Waiting != 0 {
			t.Errorf("left over: %+v", s)
		}
	})
}

package loop_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// still is the journal of a process that stands still for a while, right after an append.
type still struct {
	loop.Journal
	at    string // type of an event of the append
	lasts time.Duration

	mu    sync.Mutex // guards until
	until time.Time
}

func (s *still) Append(ctx context.Context, a store.Append) (int64, error) {
	last, err := s.Journal.Append(ctx, a)
	s.mu.Lock()
	if s.until.IsZero() && slices.ContainsFunc(a.Events, func(e store.Event) bool { return e.Type == s.at }) {
		s.until = time.Now().Add(s.lasts)
	}
	s.mu.Unlock()
	s.stand()
	return last, err
}

func (s *still) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	s.stand()
	return s.Journal.Renew(ctx, run, owner, epoch, ttl)
}

func (s *still) stand() {
	s.mu.Lock()
	until := s.until
	s.mu.Unlock()
	time.Sleep(time.Until(until))
}

const thirty = 30 * time.Second

// TestStandsStill: a process that stood still past its lease, right before a call, makes the call only
// once the lease is renewed: if another one has the run, the call is that one's.
func TestStandsStill(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		inBubble(t, func(t *testing.T, b *bench) {
			var made atomic.Int64
			cfg := b.allowed(llmtest.Script(llmtest.Call("effect", nil), llmtest.Say("ok")),
				tool("effect", func(context.Context, *loop.Call) (string, error) { made.Add(1); return "", nil }))
			cfg.Lease, cfg.Journal = thirty, &still{Journal: b.store, at: store.ToolDispatched, lasts: 2 * thirty}
			run := b.start(cfg)
			time.Sleep(thirty + thirty/2)
			if claimed {
				if _, err := b.store.Claim(t.Context(), "r1", "another", time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			out := b.finish(run)
			if claimed && (!errors.Is(out.Err, store.ErrFenced) || made.Load() != 0) || !claimed && (out.Err != nil || made.Load() != 1) {
				t.Errorf("claimed by another process %v: got %+v and %d effects", claimed, out, made.Load())
			}
		})
	}
}

// unrenewed is a journal in which no lease is renewed.
type unrenewed struct{ loop.Journal }

func (unrenewed) Renew(context.Context, string, string, int64, time.Duration) error {
	return store.ErrBusy
}

// TestAnswerOfALostRun: the call of a run that another process has does not get the answer that was
// given to that one's run.
func TestAnswerOfALostRun(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		answered := make(chan error, 1)
		cfg := b.allowed(llmtest.Script(llmtest.Call("ask", nil)), tool("ask", func(ctx context.Context, call *loop.Call) (string, error) {
			_, err := call.Ask(ctx, loop.Question{Kind: runlog.AskForm})
			answered <- err
			return "", err
		}))
		cfg.Lease, cfg.Journal = thirty, unrenewed{b.store}
		run := b.start(cfg)
		row := <-b.sink.asked
		time.Sleep(thirty)
		if _, err := b.store.Claim(t.Context(), "r1", "another", time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.SettleAsk(t.Context(), row.ID, accept()); err != nil {
			t.Fatal(err)
		}
		if out := b.finish(run); !errors.Is(out.Err, store.ErrFenced) {
			t.Errorf("outcome: got %+v, want %v", out, store.ErrFenced)
		}
		if err := <-answered; err == nil {
			t.Error("the call got the answer")
		}
	})
}

// TestLostAbove: a run of a sub-agent that ends because another process has the run above leaves its
// journal to that one.
func TestLostAbove(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		run := b.start(b.askFirst(llmtest.Script(llmtest.Call("write", nil))))
		row := <-b.sink.asked
		run.Cancel(&loop.JournalError{Err: store.ErrFenced})
		if out := b.finish(run); !errors.Is(out.Err, store.ErrFenced) {
			t.Errorf("outcome: got %+v, want %v", out, store.ErrFenced)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i ask.opened")
		if a, err := b.store.Ask(t.Context(), row.ID); err != nil || a.Status != store.AskPending {
			t.Errorf("its question: got %+v, %v, want a pending one", a, err)
		}
	})
}

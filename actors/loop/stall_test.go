package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

var errDisk = errors.New("disk I/O error")

// outage is a journal that fails for a while, from when an event of one type is appended.
type outage struct {
	loop.Journal
	at    string        // the type; [store.RunStarted] is that of Create
	lasts time.Duration // below zero for ever
	err   error
	after bool // it fails after the first write has come through, as a lost connection may

	mu    sync.Mutex
	began time.Time
	calls int // that have failed
}

// down reports whether a write fails, and begins the outage if it is one of what has that type.
func (o *outage) down(begins bool) (err error, through bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first := o.began.IsZero()
	if first && !begins {
		return nil, true
	}
	if first {
		o.began = time.Now()
	}
	if o.lasts >= 0 && time.Since(o.began) >= o.lasts {
		return nil, true
	}
	o.calls++
	return o.err, first && o.after
}

func (o *outage) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	err, through := o.down(o.at == store.RunStarted)
	if !through {
		return store.Run{}, err
	}
	head, created := o.Journal.Create(ctx, r, owner, ttl, first...)
	if err != nil {
		return store.Run{}, err
	}
	return head, created
}

func (o *outage) Append(ctx context.Context, a store.Append) (int64, error) {
	err, through := o.down(slices.ContainsFunc(a.Events, func(e store.Event) bool { return e.Type == o.at }))
	if !through {
		return 0, err
	}
	last, appended := o.Journal.Append(ctx, a)
	if err != nil {
		return 0, err
	}
	return last, appended
}

func (o *outage) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	if err, through := o.down(false); !through {
		return err
	}
	return o.Journal.Renew(ctx, run, owner, epoch, ttl)
}

// stallSink is told of stalls.
type stallSink struct {
	*recorder
	mu   sync.Mutex
	told []string
}

func (s *stallSink) Stalled(err error) { s.tell("stalled: " + err.Error()) }
func (s *stallSink) Resumed()          { s.tell("resumed") }

func (s *stallSink) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

// TestStoreOutage: an outage of the store ends no run, whenever it begins and whatever
// came through. Each event is in the journal once, and each call is made once.
func TestStoreOutage(t *testing.T) {
	const whole = "run.started tools.listed model.intent model.result i ask.opened ask.settled d r model.intent model.result run.finished"
	for _, at := range []string{store.RunStarted, runlog.ModelIntentType, store.ModelResult, store.ToolIntent, store.AskSettled,
		store.ToolDispatched, store.ToolResult, store.RunFinished} {
		for how, err := range map[string]error{"plain": store.ErrBusy, "at once": store.ErrFull, "late": errDisk} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprint(at, " ", how, " ", after), func(t *testing.T) {
					inBubble(t, func(t *testing.T, b *bench) {
						made := 0
						effect := tool("effect", func(context.Context, *loop.Call) (string, error) { made++; return "", nil })
						model := llmtest.Script(llmtest.Call("effect", nil), llmtest.Say("ok"))
						cfg := b.config(model, effect)
						cfg.Gate = nil // asks
						o := &outage{Journal: b.store, at: at, lasts: 11 * time.Second, err: err, after: after}
						sink := &stallSink{recorder: b.sink}
						cfg.Journal, cfg.Sink = journals(o)[how], sink
						run := b.start(cfg)
						row := <-b.sink.asked
						if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
							t.Errorf("Answer: %v", err)
						}
						out := b.finish(run)
						if out.Err != nil || out.Text != "ok" || made != 1 || len(model.Requests()) != 2 {
							t.Errorf("outcome: %+v, %d effects, %d turns", out, made, len(model.Requests()))
						}
						if o.calls < 2 {
							t.Errorf("the store was tried %d times in its outage", o.calls)
						}
						b.wantTypes(whole)
						if got := strings.Join(b.sink.types(), " "); got != strings.Join(b.types(), " ") {
							t.Errorf("the sink heard %s", got)
						}
						want := []string{"stalled: " + err.Error(), "resumed"}
						if at == store.RunStarted {
							want = nil // it has not begun
						}
						if !slices.Equal(sink.told, want) {
							t.Errorf("stalls: got %q, want %q", sink.told, want)
						}
					})
				})
			}
		}
	}
}

// TestStallEnds: a run waits for its store until it is cancelled, also for its end, and past the end of its
// lease.
func TestStallEnds(t *testing.T) {
	for _, at := range []string{store.ModelResult, store.RunFinished} {
		for _, lease := range []time.Duration{0, 30 * time.Second} {
			inBubble(t, func(t *testing.T, b *bench) {
				cfg := b.config(llmtest.Script(llmtest.Say("ok")))
				cfg.Lease = lease
				cfg.Journal = &outage{Journal: b.store, at: at, lasts: -1, err: store.ErrFull}
				run := b.start(cfg)
				time.Sleep(24 * time.Hour)
				select {
				case <-run.Ended():
					t.Fatalf("%s: ended with %+v", at, run.Outcome())
				default:
				}
				began := time.Now()
				run.Cancel(errUser)
				out := b.finish(run)
				var journal *loop.JournalError
				if took := time.Since(began); took > 10*time.Second || !errors.As(out.Err, &journal) {
					t.Errorf("%s: it took %v to end with %+v", at, took, out)
				}
			})
		}
	}
}

// TestStallAndLease: a run goes on when its store does, however long its lease is over, and however long the stall
// was: it counts against no limit. One that another process has claimed meanwhile is left alone.
func TestStallAndLease(t *testing.T) {
	for _, at := range []string{runlog.ModelIntentType, store.ModelResult, store.ToolIntent, store.ToolResult, store.RunFinished} {
		for _, claimed := range []bool{false, true} {
			inBubble(t, func(t *testing.T, b *bench) {
				made := 0
				effect := tool("effect", func(context.Context, *loop.Call) (string, error) { made++; return "", nil })
				cfg := b.config(llmtest.Script(llmtest.Call("effect", nil), llmtest.Say("ok")), effect)
				cfg.Lease, cfg.Limits.Wall = 5*time.Second, 20*time.Minute
				cfg.Journal = &outage{Journal: b.store, at: at, lasts: 2 * time.Hour, err: store.ErrBusy}
				run := b.start(cfg)
				time.Sleep(time.Hour)
				before, was := b.types(), made
				if claimed {
					if _, err := b.store.Claim(t.Context(), "r1", "another", 2*time.Hour); err != nil {
						t.Fatal(err)
					}
				}
				out := b.finish(run)
				if !claimed {
					if out.Err != nil || made != 1 {
						t.Errorf("%s: got %+v, %d calls", at, out, made)
					}
					return
				}
				if !errors.Is(out.Err, loop.ErrLeft) || !errors.Is(out.Err, store.ErrFenced) || made != was {
					t.Errorf("%s: claimed by another: got %+v, %d calls", at, out, made-was)
				}
				if after := b.types(); !slices.Equal(after, before) {
					t.Errorf("%s: it wrote %v over %v", at, after, before)
				}
			})
		}
	}
}

// TestOpeningWaits: a run that can not be recorded waits for a while, and can be cancelled.
func TestOpeningWaits(t *testing.T) {
	tests := []struct {
		name   string
		cancel time.Duration // zero for never
		least  time.Duration
		most   time.Duration
	}{
		{"too long", 0, 20 * time.Second, 30 * time.Second},
		{"cancelled", 7 * time.Second, 7 * time.Second, 7 * time.Second},
	}
	for _, tt := range tests {
		inBubble(t, func(t *testing.T, b *bench) {
			cfg := b.config(llmtest.Script())
			cfg.Journal = &outage{Journal: b.store, at: store.RunStarted, lasts: -1, err: store.ErrBusy}
			began := time.Now()
			run := b.start(cfg)
			if tt.cancel > 0 {
				time.AfterFunc(tt.cancel, func() { run.Cancel(errUser) })
			}
			_, err := run.Opened(t.Context())
			took := time.Since(began)
			if !errors.Is(err, store.ErrBusy) || took < tt.least || took > tt.most {
				t.Errorf("%s: Opened: got %v after %v", tt.name, err, took)
			}
			<-run.Stopped()
			if out := run.Outcome(); !errors.Is(out.Err, store.ErrBusy) {
				t.Errorf("%s: outcome: %+v", tt.name, out)
			}
		})
	}
}

// TestQuestionInOutage: a store that does not take a question makes no refusal of it.
func TestQuestionInOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		model := llmtest.Script(llmtest.Call("write", nil), llmtest.Say("ok"))
		cfg := b.askFirst(model)
		cfg.Journal = &outage{Journal: b.store, at: store.AskOpened, lasts: time.Minute, err: store.ErrBusy}
		run := b.start(cfg)
		synctest.Wait()
		if n := len(b.allAsks(t)); n != 0 || b.state() != store.Running {
			t.Errorf("in the outage: %d questions, the run is %s", n, b.state())
		}
		row := <-b.sink.asked
		if n := len(b.allAsks(t)); n != 1 || b.state() != store.Waiting {
			t.Errorf("after it: %d questions, the run is %s", n, b.state())
		}
		if _, err := run.Answer(t.Context(), row.ID, accept()); err != nil {
			t.Errorf("Answer: %v", err)
		}
		if out := b.finish(run); out.Err != nil || out.ToolCalls != 1 {
			t.Errorf("outcome: %+v", out)
		}
	})
}

// state is the run's in the store.
func (b *bench) state() store.RunState {
	head, err := b.store.Run(context.Background(), "r1")
	if err != nil {
		b.t.Error(err)
	}
	return head.State
}

// killed is a store whose process dies before a write, or right behind it.
type killed struct {
	loop.Journal
	mu    sync.Mutex
	left  int // writes until then
	after bool
}

var errKilled = fmt.Errorf("%w: killed", store.ErrClosed)

func (k *killed) write(f func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left--
	switch {
	case k.left > 0:
		return f()
	case k.left == 0 && k.after:
		_ = f()
	}
	return errKilled
}

func (k *killed) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (head store.Run, err error) {
	err = k.write(func() (err error) { head, err = k.Journal.Create(ctx, r, owner, ttl, first...); return err })
	return head, err
}

func (k *killed) Append(ctx context.Context, a store.Append) (last int64, err error) {
	err = k.write(func() (err error) { last, err = k.Journal.Append(ctx, a); return err })
	return last, err
}

func (k *killed) SettleAsk(ctx context.Context, id string, d store.Decision) (a store.Ask, err error) {
	err = k.write(func() (err error) { a, err = k.Journal.SettleAsk(ctx, id, d); return err })
	return a, err
}

// TestAsksSurviveKills: whatever write is the last, the journal and the questions in the
// store say the same: what was opened can be answered, and what was answered is journalled.
func TestAsksSurviveKills(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for _, after := range []bool{false, true} {
			inBubble(t, func(t *testing.T, b *bench) {
				model := llmtest.Script(llmtest.Calls(llmtest.Call("write", nil), llmtest.Call("write", nil)), llmtest.Say("ok"))
				cfg := b.askFirst(model)
				cfg.Journal = &killed{Journal: b.store, left: n, after: after}
				run := b.start(cfg)
				go func() {
					for _, d := range []store.Decision{accept(), {Status: store.AskDeclined, By: "ada"}} {
						select {
						case row := <-b.sink.asked:
							_, _ = run.Answer(t.Context(), row.ID, d)
						case <-run.Stopped():
						}
					}
				}()
				<-run.Stopped()
				time.Sleep(time.Minute)
				b.compareAsks(fmt.Sprint("killed at write ", n, ", after it: ", after))
			})
		}
	}
}

// compareAsks compares the questions in the journal with those in the store.
func (b *bench) compareAsks(when string) {
	b.t.Helper()
	said := make(map[string]store.AskStatus)
	for ev, err := range store.Replay(context.Background(), b.store, "r1", 0) {
		if err != nil {
			break // there is no run
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			b.t.Fatal(err)
		}
		switch body := e.Body.(type) {
		case *runlog.AskOpened:
			said[e.Key] = store.AskPending
		case *runlog.AskSettled:
			said[e.Key] = body.Status
		}
	}
	stored := make(map[string]store.AskStatus)
	for _, a := range b.allAsks(b.t) {
		if stored[a.ID] = a.Status; a.Status == store.AskExpired {
			stored[a.ID] = store.AskPending // by the clock, which writes nothing
		}
	}
	if fmt.Sprint(said) != fmt.Sprint(stored) {
		b.t.Errorf("%s: the journal says %v, and the store %v", when, said, stored)
	}
}

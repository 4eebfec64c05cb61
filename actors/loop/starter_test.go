package loop_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// plain hides that a journal is a [store.Starter].
type plain struct{ loop.Journal }

// starter is a [store.Starter] that answers after a time, from a goroutine of its own, or at once
// where that is zero.
type starter struct {
	loop.Journal
	creates, appends time.Duration
}

func (s starter) StartCreate(r store.Run, owner string, ttl time.Duration, first []store.Event, done func(store.Run, error)) {
	late(s.creates, func() (store.Run, error) { return s.Create(context.Background(), r, owner, ttl, first...) }, done)
}

func (s starter) StartAppend(a store.Append, done func(int64, error)) {
	late(s.appends, func() (int64, error) { return s.Append(context.Background(), a) }, done)
}

// late makes a write after a time, and answers twice where that is not zero.
func late[T any](after time.Duration, write func() (T, error), done func(T, error)) {
	if after == 0 {
		done(write())
		return
	}
	go func() {
		time.Sleep(after)
		done(write())
		var none T
		done(none, errors.New("a second answer does not count"))
	}()
}

// journals are the ways in which a journal may answer.
func journals(j loop.Journal) map[string]loop.Journal {
	return map[string]loop.Journal{"plain": plain{j}, "at once": starter{j, 0, 0}, "late": starter{j, time.Millisecond, time.Millisecond}}
}

// TestStarters: what a run writes is the same, however its store answers; where it does so at once,
// nothing of it is a message.
func TestStarters(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for name := range journals(nil) {
			one := b.anew()
			from := len(b.trace.Lines())
			model := llmtest.Script(
				llmtest.Calls(llmtest.Call("echo", `{"n":1}`), llmtest.Call("echo", `{"n":2}`)),
				llmtest.Call("echo", `{"n":3}`),
				llmtest.Say("done"))
			cfg := one.config(model, tool("echo", echo))
			cfg.Journal = journals(one.store)[name]
			if out := one.finish(one.start(cfg)); out.Err != nil || out.Text != "done" || out.ToolCalls != 3 {
				t.Errorf("%s: outcome: %+v", name, out)
			}
			one.wantTypes("run.started tools.listed model.intent model.result i i d d r r model.intent model.result i d r model.intent model.result run.finished")
			for i, e := range one.sink.entries {
				if e.Seq != int64(i+1) {
					t.Errorf("%s: entry %d: got seq %d", name, i, e.Seq)
				}
			}
			messages := b.trace.Lines()[from:]
			for _, answer := range []string{"run Creation", "run appended"} {
				if slices.Contains(messages, answer) == (name == "at once") {
					t.Errorf("%s: messages: %q", name, messages)
				}
			}
		}
	})
}

// broken is a [store.Starter] that panics, after an answer or without.
type broken struct {
	starter
	create  bool // in StartCreate; else in StartAppend
	answers bool
}

func (s broken) StartCreate(r store.Run, owner string, ttl time.Duration, first []store.Event, done func(store.Run, error)) {
	if s.answers || !s.create {
		s.starter.StartCreate(r, owner, ttl, first, done)
	}
	if s.create {
		panic("a bug")
	}
}

func (s broken) StartAppend(a store.Append, done func(int64, error)) {
	if s.answers || s.create {
		s.starter.StartAppend(a, done)
	}
	if !s.create {
		panic("a bug")
	}
}

// TestStarterPanics: a panic of the store fails the run, once, unless the store has answered.
func TestStarterPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, create := range []bool{true, false} {
			for _, answers := range []bool{true, false} {
				one := b.anew()
				cfg := one.config(llmtest.Script(llmtest.Say("ok")))
				cfg.Journal = broken{starter{one.store, 0, 0}, create, answers}
				run := one.start(cfg)
				<-run.Stopped()
				out := run.Outcome()
				_, panicked := errors.AsType[*actors.PanicError](out.Err)
				if panicked == answers || (out.Err == nil) != answers {
					t.Errorf("create %v, answers %v: outcome: %+v", create, answers, out)
				}
			}
		}
	})
}

// TestStarterAnswersTooLate: an answer that comes when the run has given up waiting changes nothing.
func TestStarterAnswersTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		cfg := b.config(llmtest.Script(llmtest.Say("ok")))
		cfg.Journal = starter{b.store, 0, time.Minute}
		run := b.start(cfg)
		synctest.Wait()
		run.Cancel(errUser)
		out := b.finish(run)
		if _, lost := errors.AsType[*loop.JournalError](out.Err); !lost || !errors.Is(out.Err, errUser) || out.State != store.Cancelled {
			t.Errorf("outcome: %+v", out)
		}
		if got := b.types(); len(got) != 1 {
			t.Errorf("journal: %v", got)
		}
		time.Sleep(2 * time.Minute)
		b.wantTypes("run.started tools.listed model.intent")
		if n := len(b.sink.types()); n != 1 {
			t.Errorf("the sink saw %d events", n)
		}
	})
}

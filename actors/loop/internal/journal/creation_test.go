package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// starter is a [store.Starter] that hands on how to answer. Its other methods are not called.
type starter struct {
	Creator
	store.Starter
	begun chan func(store.Run, error)
}

func (s *starter) StartCreate(_ store.Run, _ string, _ time.Duration, _ []store.Event, done func(store.Run, error)) {
	s.begun <- done
}

// recorder is an actor that begins a creation, and counts the answers that it gets by a message.
type recorder struct {
	m        *Creation
	to       Creator
	hold     chan struct{} // closed when it may take messages
	answered int
}

func (r *recorder) Receive(c *actors.Context, msg any) {
	switch msg.(type) {
	case actors.Started:
		if r.m.Begin(c, r.to, store.Run{ID: "r", InputHash: "h"}, "w", time.Minute) {
			panic("an answer at once")
		}
		<-r.hold
	case *Creation:
		r.answered++
	}
}

// TestCreationIsAnsweredOnce: an answer reaches the actor, or Late if that has gone before; or Leave hands it over. No
// second answer counts.
func TestCreationIsAnsweredOnce(t *testing.T) {
	down, again := errors.New("down"), errors.New("a second answer does not count")
	for name, tt := range map[string]struct {
		leaves                bool // the actor is stopped
		answers               bool // before the actor goes; else after
		messages, late, hands int
	}{
		"the actor takes it":           {false, true, 1, 0, 0},
		"the actor has gone":           {true, false, 0, 1, 0},
		"the message is not taken yet": {true, true, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys, err := actors.NewSystem(nil)
				if err != nil {
					t.Fatal(err)
				}
				late, hands := 0, 0
				m := &Creation{First: []runlog.Entry{{Type: store.RunStarted, Body: &runlog.RunStarted{}}}, Late: func() { late++ }}
				s := &starter{begun: make(chan func(store.Run, error), 1)}
				r := &recorder{m: m, to: s, hold: make(chan struct{})}
				ref, err := sys.Spawn(actors.Spec{Kind: actors.KindRun, New: func() actors.Actor { return r }, OnStop: func(error) {
					if m.Leave() {
						hands++
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				done := <-s.begun
				synctest.Wait()
				if tt.answers {
					// Begin has returned, and the actor takes nothing yet.
					done(store.Run{ID: "r"}, down)
				}
				if tt.leaves {
					ref.Stop()
				}
				close(r.hold)
				synctest.Wait()
				if !tt.answers {
					done(store.Run{ID: "r"}, down)
				}
				done(store.Run{}, again)
				synctest.Wait()
				if r.answered != tt.messages || late != tt.late || hands != tt.hands {
					t.Errorf("got %d messages, %d late, %d handed over, want %d, %d and %d", r.answered, late, hands, tt.messages, tt.late, tt.hands)
				}
				if err := m.Take(); err != down {
					t.Errorf("Take: got %v", err)
				}
				if err := sys.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCreationComesThrough: an attempt that finds its run recorded by the one before has come through.
func TestCreationComesThrough(t *testing.T) {
	mine := store.Run{ID: "r", Owner: "w", InputHash: "h", Seq: 2}
	others := []store.Run{{ID: "r", Owner: "x", InputHash: "h", Seq: 2}, {ID: "r", Owner: "w", InputHash: "x", Seq: 2}, {ID: "r", Owner: "w", InputHash: "h", Seq: 3}}
	for _, tt := range []struct {
		again bool
		head  store.Run
		err   error
		want  error
	}{
		{true, mine, store.ErrExists, nil},
		{false, mine, store.ErrExists, store.ErrExists},
		{true, mine, store.ErrFull, store.ErrFull},
		{true, others[0], store.ErrExists, store.ErrExists},
		{true, others[1], store.ErrExists, store.ErrExists},
		{true, others[2], store.ErrExists, store.ErrExists},
		{false, mine, nil, nil},
	} {
		m := &Creation{First: make([]runlog.Entry, 2), Again: tt.again, owner: "w", hash: "h"}
		m.answer(tt.head, tt.err)
		if err := m.Take(); err != tt.want {
			t.Errorf("%+v: got %v", tt, err)
		}
		if numbered := m.First[1].Seq == 2; numbered != (tt.want == nil) {
			t.Errorf("%+v: got the entries %+v", tt, m.First)
		}
	}
}

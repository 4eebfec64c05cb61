package eventlog

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/store"
)

// poll is how often a run of another process is looked at.
const poll = time.Second

// changeover is how long a run that a reader has seen at work may be without a process before it is taken for one that was left: another process
// takes it over.
const changeover = 3 * time.Second

// Stored reads a run that has no log in this process, and follows it while a process works on it.
type Stored[H, E any] struct {
	Journal     store.Journal
	Run         string
	Convert     Converter[H, E]
	Interrupted error // ends the events of a run that no process works on

	seq      int64     // of the last entry
	held     time.Time // when a process was last seen at work; zero for never
	finished bool
}

// Finished reports whether the last event of the run was read.
func (s *Stored[H, E]) Finished() bool { return s.finished }

// Next returns the next events, and waits for them; none at all is the end.
func (s *Stored[H, E]) Next(ctx context.Context) ([]E, error) {
	for !s.finished {
		// The head first: the next look sees events that are written after it.
		head, err := s.Journal.Run(ctx, s.Run)
		if err != nil {
			return nil, fmt.Errorf("reading the run: %w", err)
		}
		before := s.seq
		if events, err := s.Past(ctx); err != nil || len(events) > 0 {
			return events, err
		}
		if s.seq > before {
			continue
		}
		switch now := time.Now(); {
		case head.State.Ended():
			return nil, s.Interrupted
		case head.Leased(now):
			s.held = now
		case now.Sub(s.held) < changeover:
		case head.State == store.Waiting:
			return nil, loop.ErrSuspended
		default:
			return nil, s.Interrupted
		}
		if err := pause.For(ctx, poll); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Past returns the next events that there are, none if there are no more.
func (s *Stored[H, E]) Past(ctx context.Context) ([]E, error) {
	for {
		page, err := s.Journal.Events(ctx, s.Run, s.seq, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the run's journal: %w", err)
		}
		if len(page) == 0 {
			return nil, nil
		}
		events, seq, finished, err := decode(s.Convert, page, page[len(page)-1].Seq)
		s.seq, s.finished = max(s.seq, seq), finished
		if err != nil || len(events) > 0 {
			return events, err
		}
	}
}

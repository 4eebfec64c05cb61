package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Line is the form of titles and summaries.
var Line = line

// Poison makes the actor of a run panic that has nothing to write.
func (r *Run) Poison() { r.ref.Send((*raise)(nil)) }

// HoldNothing has runs write each entry at once, until the function that it returns is called: what
// they write together else is then in several appends, as where a step takes long.
func HoldNothing() (undo func()) {
	was := journal.HeldFor
	journal.HeldFor = 0
	return func() { journal.HeldFor = was }
}

// New returns the only run of a template.
func New(cfg *Config) (*Run, error) {
	t, err := NewTemplate(cfg)
	if err != nil {
		return nil, err
	}
	return t.New(cfg.Own)
}

// liveState is what a run knows of itself, in the words of a [runlog.State].
type liveState struct {
	Agent                                  string
	Path                                   []string
	History                                []llm.Message
	Turn, Steps, ToolCalls, Redos, Refused int
	Empties, Cuts                          int
	HandOffs                               int
	Repeats                                runlog.Circle
	Usage                                  runlog.Usage
	Seen                                   runlog.Taint
	Calls                                  map[string]string // where each of the turn stands
	Asks                                   []string          // open
	Wall                                   time.Duration
}

// Folds compares at each moment at which a run has nothing left to write the fold of its
// journal with what it knows itself. The function that it returns says how often it did, and
// what was not the same.
func Folds() func() (compared int, wrong []string) {
	var mu sync.Mutex // tests have several runs
	n, bad := 0, []string(nil)
	states, stalled := make(map[*parts]*runlog.State), make(map[*parts]bool)
	probe = func(p *parts, entries []runlog.Entry) {
		if p.cfg.Journal == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		s := states[p]
		if s == nil {
			s = new(runlog.State)
			states[p] = s
			if again := p.cfg.Resumes; again != nil {
				for ev, err := range store.Replay(context.Background(), p.cfg.Journal.(store.Journal), p.cfg.ID, 0) {
					e, bug := runlog.Decode(ev)
					if err = errors.Join(err, bug); err != nil {
						bad = append(bad, err.Error())
					} else if e.Seq <= again.Head.Seq {
						s.Add(&e)
					}
				}
			}
		}
		for _, e := range entries { // as a reader gets them
			stalled[p] = stalled[p] || time.Since(e.Time) > time.Second
			ev, err := e.Encode()
			if err != nil {
				bad = append(bad, err.Error())
				continue
			}
			ev.Seq = e.Seq
			read, err := runlog.Decode(ev)
			if err != nil {
				bad = append(bad, err.Error())
				continue
			}
			s.Add(&read)
		}
		if entries != nil || p.out != nil || p.journal.Final() || p.cfg.Resumes != nil {
			return
		}
		n++
		is, said := alive(p), folded(s, p)
		if s.Turn.Open() { // attempts that broke off are charged at once, and written with the turn's end
			is.Usage = said.Usage
			if stalled[p] { // the clock stood still, which its events do not say
				said.Wall = max(is.Wall, said.Wall)
			}
		}
		if live, folded := inText(is), inText(said); live != folded {
			bad = append(bad, fmt.Sprintf("event %d: the run is\n%s\nits journal says\n%s", s.Seq, live, folded))
		}
	}
	return func() (int, []string) {
		probe = nil
		return n, bad
	}
}

func inText(s liveState) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func alive(p *parts) liveState {
	bill := p.h.spend.SoFar()
	r := p.run.(*run)
	l := liveState{Agent: p.cfg.Agent, Path: p.cfg.Path, History: p.talk.Messages(), Steps: bill.Steps, ToolCalls: bill.ToolCalls,
		Redos: r.check.redos, Empties: r.check.empties, Cuts: r.check.cuts, Refused: r.check.refusals, HandOffs: r.check.handOffs, Repeats: r.repeats.seen.Circle(), Usage: bill.Usage,
		Seen: p.calls.seen, Calls: make(map[string]string), Wall: p.clock.remaining()}
	l.Usage.Over, l.Usage.OverCost = 0, 0
	if last := len(l.History) - 1; l.History[last].Role == llm.RoleAssistant { // its results are not there
		l.History = l.History[:last]
	}
	for id, a := range p.asks.open {
		if a.stored {
			l.Asks = append(l.Asks, id)
		}
	}
	if q := p.limits.asked; q != nil && q.Settled == nil { // of the process before, until the limit is reached again
		l.Asks = append(l.Asks, q.Ask.ID)
	}
	slices.Sort(l.Asks)
	if p.turn == nil {
		return l
	}
	l.Turn = p.turn.n
	for _, cl := range p.turn.calls {
		switch {
		case cl.phase == fresh: // not decided
		case cl.phase == sent && !cl.unsent():
			l.Calls[cl.key] = "sent"
		case cl.phase == returned:
			l.Calls[cl.key] = fmt.Sprint("returned, made: ", cl.made)
		default:
			l.Calls[cl.key] = fmt.Sprint("intended, asking: ", cl.phase == asking)
		}
	}
	return l
}

// folded is what a journal says. The clock of the run may stand still for a run below.
func folded(s *runlog.State, p *parts) liveState {
	l := liveState{Agent: s.Agent.To, Path: s.Agent.Path, History: s.Messages(), Steps: s.Steps, ToolCalls: s.ToolCalls, Redos: s.Redos,
		Empties: s.Empties, Cuts: s.Cuts, Refused: s.Refusals, HandOffs: len(s.HandOffs), Repeats: s.Repeats.Circle(), Usage: s.Usage, Seen: s.Seen,
		Calls: make(map[string]string), Wall: s.Wall}
	// It is exact when a turn begins, in milliseconds; the event may be older, as it is durable now.
	l.Wall = s.Wall - time.Since(s.Time)
	if left := p.clock.remaining(); !s.Turn.Open() || (l.Wall-left).Abs() < 20*time.Millisecond {
		l.Wall = left
	}
	if p.turn != nil && len(s.Turn.Calls) == 0 { // it may be about to decide, which is not written yet
		check := p.run.(*run).check
		l.Refused, l.Cuts = check.refusals, check.cuts
	}
	for _, q := range s.Asks {
		if q.Settled == nil {
			l.Asks = append(l.Asks, q.Ask.ID)
		}
	}
	slices.Sort(l.Asks)
	if s.Turn == nil {
		return l
	}
	l.Turn = s.Steps                                                   // less for a turn that was lost
	if len(p.turn.calls) == 0 && (s.Turn.Over || p.turn.resp == nil) { // it was over when the run was resumed
		return l
	}
	for _, c := range s.Turn.Calls {
		switch {
		case !c.Open():
			l.Calls[c.Key] = fmt.Sprint("returned, made: ", c.Made)
		case c.Sent && c.Outcome == nil && !c.Anew:
			l.Calls[c.Key] = "sent"
		default:
			l.Calls[c.Key] = fmt.Sprint("intended, asking: ", slices.ContainsFunc([]*runlog.Question{c.Approval, c.Outcome}, func(q *runlog.Question) bool {
				return q != nil && q.Settled == nil
			}))
		}
	}
	return l
}

package loop

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/guard"
)

// decide checks the model's calls or answer, in a task where the gate, a guard or the answer's check
// may wait.
func (r *run) decide(c *actors.Context) {
	r.state = (*run).deciding
	t := r.turn
	t.uses = t.resp.Calls()
	t.left = len(t.uses)
	if t.left == 0 {
		r.check.check(c)
		return
	}
	r.calls.add(t.uses)
	cfg, tools := r.cfg, r.talk.tools.byName
	if cfg.GateNow && !guard.BeforeTool.Guarded(cfg.Guards) {
		rulings, err := actors.Guard(func() ([]ruling, error) { return ruleAll(context.Background(), cfg, tools, t), nil })
		r.decided(c, &decided{turn: t, rulings: rulings, err: err})
		return
	}
	actors.Await(c, func(ctx context.Context) ([]ruling, error) { return ruleAll(ctx, cfg, tools, t), nil },
		func(rulings []ruling, err error) any { return decided{turn: t, rulings: rulings, err: err} })
}

// ruleAll decides on the calls of a turn.
func ruleAll(ctx context.Context, cfg *config, tools map[string]*Tool, t *turn) []ruling {
	rulings := make([]ruling, len(t.calls))
	for i, cl := range t.calls {
		rulings[i] = rule(ctx, cfg, tools, i, cl)
		if rulings[i].guards.Stop != nil {
			break
		}
	}
	return rulings
}

func (r *run) deciding(c *actors.Context, msg any) {
	if m, ok := msg.(decided); ok && m.turn == r.turn { // else late
		r.decided(c, &m)
	}
}

func (r *run) decided(c *actors.Context, m *decided) {
	switch {
	case m.rulings != nil:
		r.judge(c, m.rulings)
	case m.err != nil && len(m.turn.calls) > 0:
		r.failed(c, fmt.Errorf("deciding on the calls: %w", m.err))
	case m.err != nil:
		r.check.redo(c, m.err)
	default:
		r.check.checked(c, m)
	}
}

// judge goes on with the calls of a turn, if guards let it.
func (r *run) judge(c *actors.Context, rulings []ruling) {
	entries, err := r.check.judged(r.turn, rulings)
	if err != nil {
		r.failed(c, err, entries...)
		return
	}
	if len(entries) > 0 {
		r.journal.Write(c, nil, entries...)
	}
	if r.out == nil {
		r.calls.act(c, rulings)
	}
}

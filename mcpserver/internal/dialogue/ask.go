package dialogue

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// Ask puts questions to the client that the handler works for, and returns when they have
// their answers.
func (c *Call) Ask(ctx context.Context, qs []*questions.Question) error {
	t, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	live := c.live()
	switch sender := live.Sender(); {
	case sender.Version.Era() == mcp.EraLegacy:
		return c.askNested(ctx, live, sender, qs)
	case sender.Task != nil:
		return c.askTask(ctx, sender, qs)
	}
	return c.askRound(ctx, qs)
}

// askTask puts questions to the client of a task of 2026-07-28.
func (c *Call) askTask(ctx context.Context, sender Sender, qs []*questions.Question) error {
	if err := questions.Missing(sender.Can(), qs); err != nil {
		return err
	}
	inputs := make(mcp.InputRequests, len(qs))
	for _, q := range qs {
		if err := c.openPage(q); err != nil {
			return err
		}
		inputs[q.Key] = q.Input()
	}
	answers, err := sender.Task.Ask(ctx, inputs)
	if err != nil {
		return err
	}
	for _, q := range qs {
		if err := q.Settle(answers[q.Key]); err != nil {
			q.Err = err
		} else if q.Visited() {
			q.Err = c.waitForPage(ctx, q, nil)
		}
	}
	return nil
}

// Once runs f, which must not run twice in the call, and returns its result, or that of the
// goroutine that has run it before, which done says. A goroutine that comes while another
// one is at work waits for that; what fails may run again.
func (c *Call) Once(ctx context.Context, key string, f func(ctx context.Context) (json.RawMessage, error)) (raw json.RawMessage, done bool, err error) {
	once, mine := &c.talking().once, new(actors.Reply[json.RawMessage])
	for {
		found, there := once.entries.LoadOrStore(key, mine)
		if !there {
			break
		}
		other := found.(*actors.Reply[json.RawMessage])
		if !other.Completed() {
			select {
			case <-other.Done():
			case <-ctx.Done():
				return nil, false, context.Cause(ctx)
			case <-c.Context().Done():
				return nil, false, context.Cause(c.Context())
			}
		}
		if raw, err := other.Result(); err == nil {
			return raw, true, nil
		}
	}
	failed := true
	defer func() { // also when f panics
		if failed {
			once.entries.Delete(key)
			mine.Complete(nil, errFailed)
		}
	}()
	if raw, err = f(ctx); err == nil {
		failed = false
		mine.Complete(raw, nil)
	}
	return raw, false, err
}

var errFailed = errors.New("it has failed")

// RoundsLeft returns how many of so many rounds the client can still be asked in; false if
// it is not asked in rounds.
func (c *Call) RoundsLeft(ctx context.Context, rounds int) (left int, counted bool, err error) {
	if sender := c.live().Sender(); !sender.InRounds() {
		return 0, false, nil
	}
	t, err := c.enter(ctx) // the rounds belong to the goroutine that asks
	if err != nil {
		return 0, false, err
	}
	defer t.leave()
	return rounds - t.round, true, nil
}

// Skip passes over recorded answers, which belong to work that was done once.
func (c *Call) Skip(answers int32) { c.talking().skip.Add(answers) }

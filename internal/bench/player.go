package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/llm"
)

// player is the scripted model of all sessions: what it says follows from what it is
// asked. Each turn calls the next tool, but for the last.
type player struct {
	opts   *AgentsOptions
	first  string // what it says in the first turn
	usage  llm.Usage
	slots  []atomic.Int64 // by session: when its last turn ended, on the monotonic clock
	since  time.Time
	turns  atomic.Pointer[latencies] // nil records nothing
	holds  atomic.Bool               // every second session waits at the gate in its second turn
	waits  gate
	number atomic.Int64 // of calls: no two have the same id
}

func newPlayer(o *AgentsOptions) *player {
	return &player{opts: o, first: strings.Repeat("m", o.History/4), usage: llm.Usage{Input: o.History / 4, Output: o.History / 16},
		slots: make([]atomic.Int64, o.Sessions), since: time.Now()}
}

// Name implements [llm.Model].
func (p *player) Name() string { return "bench/player" }

func (p *player) record(to *latencies) { p.turns.Store(to) }

// hold has every second session wait in its second turn, until it is called with false.
func (p *player) hold(on bool) {
	if on {
		p.waits.shut()
	} else {
		p.waits.open()
	}
	p.holds.Store(on)
}

// waiting is how many sessions do.
func (p *player) waiting() int64 { return p.waits.waiting() }

// Stream implements [llm.Model].
func (p *player) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		turn, session := 1, 0
		for i := range req.Messages {
			if req.Messages[i].Role == llm.RoleAssistant {
				turn++
			}
		}
		if session = numberOf(req); session < 0 || session >= len(p.slots) {
			yield(nil, errors.New("a session without a number"))
			return
		}
		if len(req.Tools) != p.opts.Tools {
			yield(nil, fmt.Errorf("a session is offered %d tools, want %d", len(req.Tools), p.opts.Tools))
			return
		}
		p.began(session, turn)
		if err := p.wait(ctx, session, turn); err != nil {
			yield(nil, err)
			return
		}
		p.say(req, session, turn, yield)
	}
}

// began records how long the runtime took since the turn before.
func (p *player) began(session, turn int) {
	if to := p.turns.Load(); to != nil && turn > 1 {
		to.add(time.Since(p.since) - time.Duration(p.slots[session].Load()))
	}
}

// numberOf returns which session asks, -1 if that is unknown.
func numberOf(req *llm.Request) int {
	_, rest, _ := strings.Cut(req.Messages[0].Content.Text(), "session ")
	word, _, _ := strings.Cut(rest, " ")
	if n, err := strconv.Atoi(word); err == nil {
		return n
	}
	return -1
}

func (p *player) wait(ctx context.Context, session, turn int) error {
	if turn == 2 && session%2 == 0 && p.holds.Load() {
		if err := p.waits.pass(ctx); err != nil {
			return err
		}
	}
	return pause.For(ctx, p.opts.Think)
}

func (p *player) say(req *llm.Request, session, turn int, yield func(llm.Event, error) bool) {
	finish := llm.FinishReason(llm.FinishToolCalls)
	text, size := "again", 1
	if turn == 1 {
		text, size = p.first, p.opts.History/4
	}
	if turn == p.opts.Turns {
		text, finish = "done", llm.FinishStop
	}
	if !yield(llm.TextDelta{Text: text}, nil) {
		return
	}
	if finish == llm.FinishToolCalls {
		holds := turn == 2 && session%2 == 1 && p.holds.Load()
		args := json.RawMessage(fmt.Sprintf(`{"size":%d,"wait":%t}`, size, holds))
		id := fmt.Sprintf("call_%d", p.number.Add(1))
		if !yield(llm.ToolCall{ID: id, Name: req.Tools[(session+turn)%len(req.Tools)].Name, Arguments: args}, nil) {
			return
		}
	}
	if yield(p.usage, nil) {
		p.slots[session].Store(int64(time.Since(p.since)))
		yield(llm.Finish{Reason: finish, Model: p.Name()}, nil)
	}
}

var _ llm.Model = (*player)(nil)

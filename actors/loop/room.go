// room.go: a run waits until runs beside it have settled what their turns hold.

package loop

import (
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// roomFreed is a message to itself: another run of the tree has given something back.
type roomFreed struct {
	req    *llm.Request
	before []runlog.Entry
}

// awaitRoom has the run wait, if a limit lacks room for a whole turn only because of the
// turns of other runs. The run's wall time goes on.
func (r *run) awaitRoom(c *actors.Context, req *llm.Request, before []runlog.Entry) bool {
	self := c.Self()
	leave, waits := r.spend.account.WaitForRoom(r.wholeTurn(req), func() { self.Send(roomFreed{req, before}) })
	if waits {
		r.state, r.leaveQueue = (*run).awaitingRoom, leave
	}
	return waits
}

func (r *run) awaitingRoom(c *actors.Context, msg any) {
	if m, ok := msg.(roomFreed); ok {
		r.leaveQueue, r.prepared = nil, m.req
		r.think(c, m.before...)
	}
}

// wholeTurn is the next turn with all that is held beside it, the last turn of a run that
// wraps up among it.
func (r *run) wholeTurn(req *llm.Request) budget.Turn {
	t := budget.Turn{Input: r.spend.input(req), Output: req.MaxTokens, Steps: 1, Price: r.spend.most()}
	if r.cfg.Limits.OnLimit == runlog.LimitWrapUp && !r.spend.holdsLast() {
		t.Input += r.spend.input(lastRequest(req)) + maxLastOutput
	}
	return t
}

package asks

import (
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// Bounds of what servers can write into logs and journals by asking in vain (ROB-9).
const (
	MaxNotices = 16 // to the Human of one call
	maxDoubts  = 3  // named with a question
)

// MayAsk reports whether a server may ask something because of a call of the method.
// In 2026-07-28 it is three that may (MRTR-01); in a legacy session we look at what
// is more than a look at the server's own state.
func MayAsk(method string) bool {
	switch method {
	case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodComplete,
		mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates,
		mcp.MethodSubscribe, mcp.MethodUnsubscribe, mcp.MethodListen, mcp.MethodListTasks, mcp.MethodCancelTask:
		return false
	}
	return true
}

// Origin is where a question comes from.
type Origin struct {
	Version mcp.Version
	// Calls are those that it may belong to: one, if that is known.
	Calls []*Call
	// Strangers says that it may belong to other calls, too, whose owners are not known.
	Strangers bool
	// Hold keeps the clocks of the calls still; nil if they stand still anyway.
	Hold func() (release func())
}

// Whose finds out which of our calls a request of a legacy server belongs to
// (architecture: whose question is it). It must be called as it arrives.
func (a *Asks) Whose(s *conn.Session, m *mcp.Message, related mcp.ID) *Origin {
	o := &Origin{Version: s.Version()}
	if tag, hold, ok := a.TaskOf(relatedTask(m)); ok {
		if t, ok := tag.(*Call); ok {
			o.Calls = []*Call{t}
		}
		o.Strangers, o.Hold = len(o.Calls) == 0, hold
		return o
	}
	held := related
	var only mcp.ID
	for _, out := range s.Out() {
		if related.IsZero() && !MayAsk(out.Method) || !related.IsZero() && out.ID != related {
			continue
		}
		if tag, ok := out.Tag.(*Call); !ok {
			o.Strangers = true
		} else if !slices.Contains(o.Calls, tag) {
			o.Calls = append(o.Calls, tag)
		}
		only = out.ID
	}
	live := len(o.Calls)
	switch {
	case related.IsZero():
		if live == 1 && !o.Strangers {
			held = only
		}
		// A call that we have given up may still be worked on, and ask.
		o.Calls = append(o.Calls, a.abandonedOf(s.Generation())...)
		o.Strangers = o.Strangers || live == 0 && len(o.Calls) > 0
	case live == 0: // the call has ended: who it was for is not known any more
		o.Strangers = true
	}
	o.Hold = func() func() { return s.Hold(held) }
	return o
}

// relatedTask is the task that a request names as its reason (TASK-11); "" if none.
func relatedTask(m *mcp.Message) string {
	var meta mcp.Meta
	if len(m.Meta) == 0 || mcp.Unmarshal(m.Meta, &meta) != nil {
		return ""
	}
	return meta.RelatedTask()
}

// Human is who decides: the Human that all calls under way share, else that of the
// connection, with the reason. A question that may belong to an abandoned call of another
// owner goes to the same Human only if onePerson says that they may see it.
func (o *Origin) Human(own any, onePerson bool) (human any, why error) {
	live := o.Live()
	if len(live) == 0 || o.Strangers {
		return own, errUnknownCall
	}
	first := live[0].Human
	for _, t := range live[1:] {
		if !Same(t.Human, first) {
			return own, errOwners
		}
	}
	for _, t := range o.Calls {
		if !t.abandoned.IsZero() && !onePerson && !Same(t.Human, first) {
			return own, ErrAbandonedOwner
		}
	}
	return first, nil
}

// Sampler is who answers for a model: the one Sampler of all calls that the request may
// belong to, else that of the connection.
func (o *Origin) Sampler(own any) any {
	if len(o.Calls) == 0 || o.Strangers {
		return own
	}
	first := o.Calls[0].Sampler
	for _, t := range o.Calls[1:] {
		if !Same(t.Sampler, first) {
			return own
		}
	}
	return first
}

// Roots is what tells the roots: the function of the one call that the request belongs
// to, else that of the connection. Functions cannot be compared, so several calls have
// none in common.
func (o *Origin) Roots(own RootsFunc) RootsFunc {
	if len(o.Calls) != 1 || o.Strangers || o.Calls[0].Roots == nil {
		return own
	}
	return o.Calls[0].Roots
}

// Same reports whether two Humans are one person, or two Samplers one. Functions can
// not be compared.
func Same(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	type owned interface{ Owner() any }
	x, ok := a.(owned)
	if y, both := b.(owned); ok && both {
		return x.Owner() == y.Owner()
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// identity is a key that is equal for what is the [Same]; what cannot be compared has none of its own.
func identity(a any) any {
	if x, ok := a.(interface{ Owner() any }); ok {
		return x.Owner()
	}
	if a != nil && !reflect.TypeOf(a).Comparable() {
		return nil
	}
	return a
}

// Live are the calls that are under way.
func (o *Origin) Live() []*Call {
	return slices.DeleteFunc(slices.Clone(o.Calls), func(t *Call) bool { return !t.abandoned.IsZero() })
}

// Path is that of the calls under way, else of the abandoned ones, if they have the same.
func (o *Origin) Path() []string {
	calls := o.Live()
	if len(calls) == 0 {
		calls = o.Calls
	}
	if len(calls) == 0 {
		return nil
	}
	for _, t := range calls[1:] {
		if !slices.Equal(t.Path, calls[0].Path) {
			return nil
		}
	}
	return calls[0].Path
}

// OnGone has f called once the last of the calls was given up.
func (o *Origin) OnGone(f func()) (remove func()) {
	live := o.Live()
	if len(live) == 0 || o.Strangers {
		return func() {}
	}
	var left atomic.Int32
	left.Store(int32(len(live)))
	removes := make([]func(), len(live))
	for i, t := range live {
		removes[i] = t.OnGone(func() {
			if left.Add(-1) == 0 {
				f()
			}
		})
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// Doubts are the notes of a question that may belong to calls that were given up, the
// newest first.
func (o *Origin) Doubts() (notes []string) {
	now := time.Now()
	for _, t := range slices.Backward(o.Calls) {
		if t.abandoned.IsZero() {
			continue
		}
		if len(notes) == maxDoubts {
			return append(notes, "The server may ask this for other cancelled calls, too.")
		}
		name := t.Name
		if name == "" {
			name = t.Method
		}
		notes = append(notes, fmt.Sprintf("The server may ask this for a call that was cancelled %v ago: %s",
			now.Sub(t.abandoned).Round(time.Second), name))
	}
	return notes
}

package actors

import (
	"runtime"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Node links a message into a mailbox. A message type that embeds it is
// queued without an allocation; a value of it must not be queued again before it
// was handled.
type Node struct {
	next *Node
	msg  any
}

func (n *Node) mailboxNode() *Node { return n }

type linked interface{ mailboxNode() *Node }

// mailbox runs its actor on a worker, or else on the goroutine of the sender that finds it
// idle. It is two lists, pushed to by compare-and-swap and taken whole, and so needs
// no queues, which in the library are four objects more. System messages go first, as
// there.
type mailbox struct {
	user, system atomic.Pointer[Node] // newest first
	lib          library              // the library's context of the actor
	workers      *workers             // nil on the inline mailbox
	busy         atomic.Int32         // how many posts the runner has not yet looked after
	suspended    bool                 // the runner's own, as what follows is

	userTaken, systemTaken *Node // oldest first
	after                  *Task // that the actor has begun in its last message, for the runner's goroutine if there is no other
}

var _ actor.Mailbox = (*mailbox)(nil)

// throughput is how many messages an actor handles before it lets others run.
const throughput = 300

func push(list *atomic.Pointer[Node], n *Node) {
	for {
		head := list.Load()
		n.next = head
		if list.CompareAndSwap(head, n) {
			return
		}
	}
}

// take empties list and returns its nodes, oldest first.
func take(list *atomic.Pointer[Node]) *Node {
	if list.Load() == nil {
		return nil
	}
	var oldest *Node
	for n := list.Swap(nil); n != nil; {
		n, n.next, oldest = n.next, oldest, n
	}
	return oldest
}

// PostUserMessage queues msg and runs the actor if it is idle.
func (m *mailbox) PostUserMessage(msg any) {
	if l, ok := msg.(linked); ok {
		n := l.mailboxNode()
		n.msg = msg
		push(&m.user, n)
	} else {
		push(&m.user, &Node{msg: msg})
	}
	m.wake()
}

// post is PostUserMessage, but for an actor on workers that is idle: the caller is its runner then, and must do
// what is returned.
func (m *mailbox) post(n *Node, msg any) (then runner) {
	n.msg = msg
	push(&m.user, n)
	switch {
	case m.busy.Add(1) != 1:
	case m.workers == nil:
		m.run()
	default:
		return m
	}
	return nil
}

// PostSystemMessage queues msg and runs the actor if it is idle.
func (m *mailbox) PostSystemMessage(msg any) {
	push(&m.system, &Node{msg: msg})
	m.wake()
}

// RegisterHandlers is called once, before the first message.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.lib = invoker.(library)
}

// library is what the library's context of an actor is.
type library interface {
	actor.Context
	actor.MessageInvoker
}

// Start has nothing to do.
func (m *mailbox) Start() {}

// UserMessageCount is asked for by the library's metrics only, which are off.
func (m *mailbox) UserMessageCount() int { return 0 }

// wake sees to it that what was posted is handled. The runner looks again when it has released
// busy, so that no message is left behind.
func (m *mailbox) wake() {
	switch {
	case m.busy.Add(1) != 1: // the runner sees the count and goes round again
	case m.workers == nil:
		m.run()
	default:
		m.workers.run(job{runner: m})
	}
}

// run handles messages until there are none. It implements runner.
func (m *mailbox) run() (then runner) {
	seen, last := int32(1), (*Task)(nil)
	if m.finish(&seen, &last); last != nil {
		return last
	}
	return nil
}

func (m *mailbox) finish(seen *int32, last **Task) {
	done := false
	defer func() {
		if !done { // runtime.Goexit: the goroutine ends, but not before this has
			m.finish(seen, last)
			giveAway(last)
		}
	}()
	for !m.drain(seen, last) {
	}
	done = true
}

// begin does a task that the actor begins: on the goroutine of this message, if that is the last one and the task the
// last one begun, which saves a change of goroutine. It is given to a worker as soon as there is another. Only the
// runner calls it.
func (m *mailbox) begin(t *Task) {
	giveAway(&m.after)
	if m.after = t; m.workers == nil || t.fresh {
		giveAway(&m.after)
	}
}

// giveAway has a worker do a task, if there is one.
func giveAway(t **Task) {
	if task := *t; task != nil {
		*t = nil
		task.from.self.p.sys.workers.run(job{runner: task, fresh: task.fresh})
	}
}

// drain handles messages until there are none, or one of them panics: then it
// reports false, and there may be more.
func (m *mailbox) drain(seen *int32, last **Task) (done bool) {
	var msg any
	defer func() {
		if done {
			return
		}
		if r := recover(); r != nil {
			m.lib.EscalateFailure(r, msg)
		}
	}()
	for n := 1; ; n++ {
		if n%throughput == 0 {
			runtime.Gosched()
		}
		if msg = next(&m.systemTaken, &m.system); msg != nil {
			giveAway(&m.after)
			m.handleSystem(msg)
		} else if msg = m.nextUser(); msg != nil {
			giveAway(&m.after)
			m.lib.InvokeUserMessage(msg)
		} else {
			*last, m.after = m.after, nil // once it is not busy another runner may have the mailbox
			if *seen = m.busy.Add(-*seen); *seen == 0 {
				return true
			}
			m.after, *last = *last, nil
		}
	}
}

func (m *mailbox) nextUser() any {
	if m.suspended {
		return nil
	}
	return next(&m.userTaken, &m.user)
}

func (m *mailbox) handleSystem(msg any) {
	switch msg.(type) {
	case *actor.SuspendMailbox:
		m.suspended = true
	case *actor.ResumeMailbox:
		m.suspended = false
	default:
		if p, ok := m.lib.Actor().(*process); ok {
			p.system(msg)
		} else { // the tests of the library have actors of their own
			m.lib.InvokeSystemMessage(msg)
		}
	}
}

// next takes the oldest message. Its node is free from here on: the handler may
// queue it again.
func next(taken **Node, list *atomic.Pointer[Node]) any {
	n := *taken
	if n == nil {
		if n = take(list); n == nil {
			return nil
		}
	}
	*taken = n.next
	msg := n.msg
	n.msg, n.next = nil, nil
	return msg
}

// refuseVisits empties the mailbox of an actor that has stopped: what waits there is
// dropped, and a visit ends with an error.
func (m *mailbox) refuseVisits(quietly func(msg any)) {
	for msg := next(&m.userTaken, &m.user); msg != nil; msg = next(&m.userTaken, &m.user) {
		if v, ok := msg.(*visit); ok {
			func() {
				defer quietly(msg)
				v.end(nil, ErrStopped)
			}()
		}
	}
}

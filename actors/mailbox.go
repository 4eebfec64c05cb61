package actors

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Node links a message into an inline mailbox. A message type that embeds it is
// queued without an allocation; a value of it must not be queued again before it
// was handled.
type Node struct {
	next *Node
	msg  any
}

func (n *Node) mailboxNode() *Node { return n }

type linked interface{ mailboxNode() *Node }

// inlineMailbox runs its actor on the goroutine of whoever finds it idle. It is
// two lists, pushed to by compare-and-swap and taken whole, and so needs neither
// a queue allocation nor a goroutine. System messages go first, as in the library.
type inlineMailbox struct {
	user, system atomic.Pointer[Node] // newest first
	busy         atomic.Int64         // how many posts the runner has not yet looked after
	invoker      actor.MessageInvoker

	// The runner's own.
	userTaken, systemTaken *Node // oldest first
	suspended              bool
}

func newInlineMailbox() actor.Mailbox { return &inlineMailbox{} }

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

// PostUserMessage queues msg and runs the actor if nobody does.
func (m *inlineMailbox) PostUserMessage(msg any) {
	if l, ok := msg.(linked); ok {
		n := l.mailboxNode()
		n.msg = msg
		push(&m.user, n)
	} else {
		push(&m.user, &Node{msg: msg})
	}
	m.run()
}

// PostSystemMessage queues msg and runs the actor if nobody does.
func (m *inlineMailbox) PostSystemMessage(msg any) {
	push(&m.system, &Node{msg: msg})
	m.run()
}

// RegisterHandlers is called once, before the first message.
func (m *inlineMailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
}

// Start has nothing to do.
func (m *inlineMailbox) Start() {}

// UserMessageCount is asked for by the library's metrics only, which are off.
func (m *inlineMailbox) UserMessageCount() int { return 0 }

// run handles messages until there are none, unless somebody does so already:
// whoever lets go of busy looks again, so that no message is left behind.
func (m *inlineMailbox) run() {
	if m.busy.Add(1) != 1 {
		return // the runner sees the count and goes round again
	}
	seen := int64(1)
	for !m.drain(&seen) {
	}
}

// drain handles messages until there are none, or one of them panics: then it
// reports false, and there may be more.
func (m *inlineMailbox) drain(seen *int64) (done bool) {
	var msg any
	defer func() {
		if done {
			return
		}
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, msg)
			return
		}
		// runtime.Goexit: the sender's goroutine ends, but not before this has.
		for !m.drain(seen) {
		}
	}()
	for {
		if msg = next(&m.systemTaken, &m.system); msg != nil {
			m.handleSystem(msg)
		} else if msg = m.nextUser(); msg != nil {
			m.invoker.InvokeUserMessage(msg)
		} else if *seen = m.busy.Add(-*seen); *seen == 0 {
			return true
		}
	}
}

func (m *inlineMailbox) nextUser() any {
	if m.suspended {
		return nil
	}
	return next(&m.userTaken, &m.user)
}

func (m *inlineMailbox) handleSystem(msg any) {
	switch msg.(type) {
	case *actor.SuspendMailbox:
		m.suspended = true
	case *actor.ResumeMailbox:
		m.suspended = false
	default:
		m.invoker.InvokeSystemMessage(msg)
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

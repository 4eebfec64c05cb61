package actors

import "github.com/asynkron/protoactor-go/actor"

// An actor stops, or is restarted, in this order, which is the library's too: its incarnation
// ends, its children stop, and only then it is out of the registry, or has another
// incarnation. The kit does it, and leaves to the library the end of an actor without
// children: what the library needs for the children of an actor are 0.6 KB, for one that may be
// restarted 0.3 KB, and it lets a restart undo a stop.

// sequel is what comes once the children of an actor have stopped.
type sequel uint8

const (
	thenNothing sequel = iota
	thenRestart
	thenStop
)

// What the library has for this.
var (
	stopMessage       = new(actor.Stop)
	restartMessage    = new(actor.Restart)
	stoppingMessage   = new(actor.Stopping)
	restartingMessage = new(actor.Restarting)
	startedMessage    = new(actor.Started)
)

var _ actor.SupervisorStrategy = (*process)(nil)

// Receive implements the library's actor.
func (p *process) Receive(lib actor.Context) { p.now.Receive(lib.Message()) }

// HandleFailure implements the library's strategy. It runs on the supervisor's goroutine.
func (p *process) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, who *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	p.now.childFailed(sup, who, reason)
}

// system handles a message of the library.
func (p *process) system(msg any) {
	switch msg.(type) {
	case *actor.Stop:
		if !p.stopping { // also if it waits for its restart
			p.end(thenStop, stoppingMessage)
		}
	case *actor.Restart:
		if !p.stopping && p.next == thenNothing {
			p.end(thenRestart, restartingMessage)
		}
	default:
		p.box.lib.InvokeSystemMessage(msg)
		p.goOn()
	}
}

// end ends the incarnation and the children.
func (p *process) end(then sequel, msg any) {
	p.next = then
	p.box.lib.InvokeUserMessage(msg)
	p.stopKids()
	p.goOn()
}

func (p *process) stopKids() {
	for kid := range p.now.kids.all() {
		kid.stop()
	}
}

// goOn does what comes next, if no child is left.
func (p *process) goOn() {
	if p.now.kids.len() > 0 {
		return
	}
	then := p.next
	p.next = thenNothing
	switch then {
	case thenStop:
		p.box.lib.InvokeSystemMessage(stopMessage)
	case thenRestart:
		p.now = new(cell)
		p.now.self = Ref{p}
		p.box.suspended = false
		p.box.lib.InvokeUserMessage(startedMessage)
	}
}

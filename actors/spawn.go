package actors

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// spawner holds what the library needs to start an actor. Its props are shared by all
// actors, which saves half of the memory of an idle one: the library calls their producers
// once, in the midst of a spawn, so that the new process, which is the library's actor and
// holds the mailbox, can be handed to them through a field.
type spawner struct {
	shared *actor.Props

	mu   sync.Mutex // from props until the producers have taken next
	next *process
}

func (s *spawner) init() { s.shared = s.newProps() }

func (s *spawner) newProps() *actor.Props {
	return actor.PropsFromProducer(s.takeActor, actor.WithMailbox(s.takeMailbox), actor.WithOnInit(born))
}

// takeActor is the producer of the props.
func (s *spawner) takeActor() actor.Actor { return s.next }

// takeMailbox is called right after it.
func (s *spawner) takeMailbox() actor.Mailbox {
	p := s.next
	s.next = nil
	s.mu.Unlock()
	return &p.box
}

// props returns what p is spawned with. It must be, at once: the spawner stays
// locked until then.
func (s *System) props(p *process) *actor.Props {
	s.spawner.mu.Lock()
	s.spawner.next = p
	return s.spawner.shared
}

// prepare makes the process of a new actor, and its name.
func (s *System) prepare(spec Spec) (*process, string, error) {
	if spec.Kind == KindRuntime || spec.Kind >= numKinds {
		return nil, "", ErrNoKind
	}
	if s.closing.Load() {
		return nil, "", ErrClosed
	}
	name := escapeName(spec.Name)
	if name == "" {
		name = spec.Kind.String() + "$" + strconv.FormatUint(s.ids.Add(1), 36)
	}
	return s.newProcess(spec), name, nil
}

// escapeName keeps a name that comes from outside to one part of a path, and
// apart from the names that prepare makes up.
func escapeName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '$' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
}

// born is called by the library once it has registered an actor, before its
// first message.
func born(lib actor.Context) {
	p := lib.Actor().(*process)
	p.pid = lib.Self()
	p.sys.census.add(p)
}

// SpawnFunc starts an actor and calls then once, with it or with the reason why there is
// none, as [Ref.SpawnChild] does.
type SpawnFunc func(spec Spec, then func(Ref, error))

// SpawnChild has the actor start a child, and calls then once, with the child or with the
// reason why there is none: an error of [Context.Spawn], or [ErrStopped]. Then is called on
// the goroutine of the actor or of the caller, and must not block. While the actor waits for
// its restart the child waits for that. SpawnChild does not wait, and may be called from a
// Receive.
func (r Ref) SpawnChild(spec Spec, then func(Ref, error)) {
	r.visit(func(c *Context, err error) {
		if err != nil {
			then(Ref{}, err)
			return
		}
		then(c.Spawn(spec))
	})
}

// visit is what the kit does in an actor, between two of its messages. Do is called once,
// also if the actor has stopped: with that error, and without a context.
type visit struct {
	Node
	do    func(c *Context, err error)
	ended atomic.Bool
}

// end ends the visit; the first call counts.
func (v *visit) end(c *Context, err error) {
	if v.ended.CompareAndSwap(false, true) {
		v.do(c, err)
	}
}

func (r Ref) visit(do func(c *Context, err error)) {
	v := &visit{do: do}
	r.Send(v)
	if !r.Alive() { // it may have looked into its mailbox for the last time before
		v.end(nil, ErrStopped)
	}
}

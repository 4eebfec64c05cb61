package actors

import (
	"strconv"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// spawner holds what the library needs to start an actor. Its props are shared
// by all actors that are never restarted, which saves half of the memory of an
// idle one: the library calls their producer once, in the midst of a spawn, so
// that the new process can be handed to it through a field.
type spawner struct {
	pooled, inline *actor.Props
	pool           actor.Dispatcher

	mu   sync.Mutex // from props until the producer has taken next
	next *process
}

func (s *spawner) init(w *workers) {
	s.pool = dispatcher{w}
	s.pooled = s.newProps(s.taken, false)
	s.inline = s.newProps(s.taken, true)
}

// taken is the producer of the shared props.
func (s *spawner) taken() actor.Actor {
	p := s.next
	s.next = nil
	s.mu.Unlock()
	return newCell(p)
}

func newCell(p *process) *cell { return &cell{Context{self: Ref{p}}} }

func (s *spawner) newProps(producer actor.Producer, inline bool) *actor.Props {
	props := actor.PropsFromProducer(producer, actor.WithOnInit(born))
	if inline {
		return props.Configure(actor.WithMailbox(newInlineMailbox))
	}
	return props.Configure(actor.WithMailbox(actor.UnboundedLockfree()), actor.WithDispatcher(s.pool))
}

// props returns what p is spawned with. It must be, at once: the spawner stays
// locked until then.
func (s *System) props(p *process) *actor.Props {
	if p.kind == KindRuntime || policies[p.kind].On == Restart {
		return s.spawner.newProps(func() actor.Actor { return newCell(p) }, p.inline)
	}
	s.spawner.mu.Lock()
	s.spawner.next = p
	if p.inline {
		return s.spawner.inline
	}
	return s.spawner.pooled
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
	return &process{sys: s, kind: spec.Kind, make: spec.New, onStop: spec.OnStop, inline: spec.Inline}, name, nil
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
	p := lib.Actor().(*cell).self.p
	p.pid = lib.Self()
	// Sending to the process, and not to the identifier, is quicker, and what is
	// sent late can not reach a later actor of the same name.
	p.proc, _ = p.sys.lib.ProcessRegistry.Get(p.pid)
	p.sys.census.add(p)
}

package conn

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// transport is the actor of one generation: the dial is its task, and the link
// ends with it.
type transport struct {
	conn    *Conn
	session *Session
	parent  actors.Ref
}

func transportSpec(k *Conn, s *Session, parent actors.Ref) actors.Spec {
	return actors.Spec{
		Kind: actors.KindTransport,
		New:  func() actors.Actor { return &transport{k, s, parent} },
	}
}

// Receive implements [actors.Actor].
func (t *transport) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		actors.Await(c, t.dial, func(_ struct{}, err error) any { return &dialed{t.session.gen, err} })
	case *dialed:
		t.parent.Send(m)
	case actors.Stopping:
		t.session.end()
	}
}

// dial makes the link. The session takes it even when the actor is gone.
func (t *transport) dial(ctx context.Context) (struct{}, error) {
	link, err := actors.Guard(func() (mcp.Link, error) { return t.conn.opts.Dial(ctx, t.session.gen, t.session) })
	if err == nil && link == nil {
		err = Permanent(errors.New("the dial returned nothing"))
	}
	t.session.attach(link, err)
	return struct{}{}, err
}

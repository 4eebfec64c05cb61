package streamable

import "github.com/troupe-dev/troupe/mcp"

// cancelled takes a request back. In 2026-07-28 that is the end of its stream (SHM-09,
// CANC-09); before, a disconnect means nothing (SHL-15) and the server is told. A
// request that has not left is just not sent. The lock is held.
func (l *Link) cancelled(m mcp.Outgoing) error {
	p := l.posts[m.Cancels]
	if p == nil {
		return nil // it has its end
	}
	delete(l.posts, m.Cancels)
	if l.modern() || p.body.withdraw() {
		p.end(errCancel)
		return nil
	}
	note := newPost(l, m)
	note.taken = p
	err := l.enqueue(note)
	if err != nil {
		p.end(errCancel)
	}
	return err
}

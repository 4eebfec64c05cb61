package clients

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"

	"github.com/troupe-dev/troupe/mcp"
)

// Senders remember the newest senders of modern requests, so that their _meta is decoded
// once. The zero value is for a session of one client.
type Senders struct {
	newest atomic.Pointer[remembered]
	shared *[256]atomic.Pointer[remembered] // instead of newest, of a session that many clients share
}

// Share makes s remember many clients, by their descriptions: it never takes a property of one
// for another's (CAP-05). It is called before anything else.
func (s *Senders) Share() { s.shared = new([256]atomic.Pointer[remembered]) }

// remembered is a sender with its newest _meta.
type remembered struct {
	raw    []byte
	sender *Client
}

const (
	// maxMeta bounds the _meta of a modern request, in bytes: the description of the client is
	// decoded, and kept for as long as the call lasts (ROB-3).
	maxMeta = 256 << 10
	// maxKnownMeta bounds the _meta that is remembered of one sender, in bytes.
	maxKnownMeta = 2 << 10
)

// Newest returns the sender of the newest request of a session of one client; nil for none.
func (s *Senders) Newest() *Client {
	if newest := s.newest.Load(); newest != nil {
		return newest.sender
	}
	return nil
}

// Read returns the sender of a modern request. Most clients send the same _meta with each
// request; those that add something new each time, such as a progress token, are one sender
// all the same.
func (s *Senders) Read(raw []byte) (*Client, error) {
	last := s.place(raw)
	if h := last.Load(); h != nil && bytes.Equal(h.raw, raw) {
		return h.sender, nil
	}
	if len(raw) > maxMeta {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "_meta is longer than %d bytes", maxMeta)
	}
	var meta mcp.Meta
	if err := mcp.Unmarshal(raw, &meta); err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "_meta is malformed")
	}
	said := saidOf(meta)
	alike := s.place(said)
	if h := alike.Load(); h != nil && bytes.Equal(h.sender.said, said) {
		h.sender.remember(raw, last, alike)
		return h.sender, nil
	}
	c, err := newSender(meta, said)
	if err != nil {
		return nil, err
	}
	if len(raw) <= maxKnownMeta {
		c.first = bytes.Clone(raw)
	}
	c.remember(raw, last, alike)
	return c, nil
}

var senderSeed = maphash.MakeSeed()

// place returns where the sender with this _meta or description is remembered.
func (s *Senders) place(raw []byte) *atomic.Pointer[remembered] {
	if s.shared == nil {
		return &s.newest
	}
	return &s.shared[maphash.Bytes(senderSeed, raw)%uint64(len(s.shared))]
}

// saidOf joins the members of _meta that describe its sender. JSON values do not contain the
// separator, so distinct clients never share a key.
func saidOf(meta mcp.Meta) []byte {
	return bytes.Join([][]byte{meta[mcp.MetaClientCapabilities], meta[mcp.MetaClientInfo], meta[mcp.MetaLogLevel]}, []byte{0})
}

// newSender decodes the description of a sender.
func newSender(meta mcp.Meta, said []byte) (*Client, error) {
	c, err := &Client{said: said}, error(nil)
	if c.Capabilities, err = meta.ClientCapabilities(); err != nil {
		return nil, err
	}
	if c.Level, err = meta.LogLevel(); err != nil {
		return nil, err
	}
	if info := meta.ClientInfo(); info != nil {
		c.Info = *info
	}
	return c, nil
}

// remember makes c the sender of raw, unless that is long.
func (c *Client) remember(raw []byte, places ...*atomic.Pointer[remembered]) {
	if len(raw) > maxKnownMeta {
		return
	}
	now := &remembered{raw: c.first, sender: c}
	if !bytes.Equal(c.first, raw) {
		now.raw = bytes.Clone(raw)
	}
	for _, place := range places {
		place.Store(now)
	}
}

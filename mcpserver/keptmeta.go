package mcpserver

import (
	"bytes"
	"slices"
)

// keptMeta is the _meta of a request that has outlived its frame. Nearly all of it is
// what the sender says with each request, and is there once: from that its two ends are.
type keptMeta struct {
	own        []byte // what is between the ends; nil when there is no _meta
	head, tail uint16 // bytes of the sender's first _meta
}

// meta is what is to be kept of raw.
func (c *client) meta(raw []byte) keptMeta {
	k := keptMeta{own: raw}
	n := min(len(c.first), len(raw))
	for int(k.head) < n && raw[k.head] == c.first[k.head] {
		k.head++
	}
	for int(k.tail) < n-int(k.head) && raw[len(raw)-1-int(k.tail)] == c.first[len(c.first)-1-int(k.tail)] {
		k.tail++
	}
	k.own = raw[k.head : len(raw)-int(k.tail)]
	return k
}

// rawMeta is the _meta as it came; nil when there is none that the handler can see.
func (r *request) rawMeta() []byte {
	k := r.meta
	if k.head == 0 && k.tail == 0 {
		return k.own
	}
	first := r.client.first
	return slices.Concat(first[:k.head], k.own, first[len(first)-int(k.tail):])
}

// clone is apart from whatever else own is a part of.
func (k keptMeta) clone() keptMeta {
	k.own = bytes.Clone(k.own)
	return k
}

// size is how long the _meta is, in bytes.
func (k keptMeta) size() int { return int(k.head) + len(k.own) + int(k.tail) }

package llm

import (
	"bytes"
	"sync"

	"github.com/troupe-dev/troupe/mcp"
)

// maxEncoded bounds the bytes that are kept of one conversation.
const maxEncoded = 4 << 20

// maxScratch bounds the memory that is kept for the next message to encode.
const maxScratch = 256 << 10

var scratches = sync.Pool{New: func() any { return new([]byte) }}

// Encodings keeps the messages of one conversation as a client has encoded them, so that
// the next request encodes only what is new: see [Request].Encodings. At most 4 MiB are kept.
// The zero value is ready, and must not be copied. All methods may be called from any goroutine.
//
// A message is the same as before if it says the same: role, text, calls, results, images and
// other blocks, and provider state, without annotations and members that no protocol names. So messages may be
// copied, replaced, left out, and changed in place between two requests.
type Encodings struct {
	mu      sync.Mutex      // guards what follows
	kept    []*kept         // the messages of the last request
	dialect string          // of their encodings
	size    int             // bytes of those
	parts   [][]byte        // what Encode has returned last
	same    int             // so many of parts are those of kept
	valid   int             // so many messages at the start of kept are known to follow each other as they must
	ids     map[string]bool // of the calls in those
	looked  *Message        // the first message of a request that Validate has looked at, and nothing else since
}

// Encode returns what messages are in a dialect, one part for each: encode appends message i. It is
// not called for messages that were encoded before, so that what it appends may depend on the dialect,
// on message i and on the one before it, and on nothing else. Its error is returned. The parts must not
// be changed.
func (e *Encodings) Encode(dialect string, messages []Message, encode func(dst []byte, i int) ([]byte, error)) ([][]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(messages) == 0 || e.looked != &messages[0] || len(e.kept) != len(messages) {
		e.align(messages)
	}
	e.looked = nil
	if e.dialect != dialect {
		for _, k := range e.kept {
			k.encoded = nil
		}
		e.dialect, e.size, e.same = dialect, 0, 0
	}
	if e.same < len(e.parts) { // the rest may still be read
		e.parts = append(make([][]byte, 0, len(messages)+len(messages)/4), e.parts[:e.same]...)
	}
	scratch := scratches.Get().(*[]byte)
	defer func() {
		if cap(*scratch) <= maxScratch {
			scratches.Put(scratch)
		}
	}()
	for i := e.same; i < len(messages); i++ {
		k := e.kept[i]
		var behind *kept
		if i > 0 {
			behind = e.kept[i-1]
		}
		part := k.encoded
		if part == nil || k.behind != behind {
			var err error
			if *scratch, err = encode((*scratch)[:0], i); err != nil {
				e.parts = e.parts[:e.same]
				return nil, err
			}
			part = bytes.Clone(*scratch)
			if e.size -= len(k.encoded); e.size+len(part) > maxEncoded {
				k.encoded = nil
			} else {
				k.encoded, k.behind = part, behind
				e.size += len(part)
			}
		}
		e.parts = append(e.parts, part)
		if k.encoded != nil && e.same == i {
			e.same++
		}
	}
	return e.parts[:len(messages):len(messages)], nil
}

// align makes messages those that are kept. It is called under the lock.
func (e *Encodings) align(messages []Message) {
	n := 0
	for n < len(messages) && n < len(e.kept) && e.kept[n].is(&messages[n]) {
		n++
	}
	gone := e.kept[n:]
	e.looked, e.same = nil, min(e.same, n)
	if e.valid > n {
		e.valid, e.ids = 0, nil
	}
	var places map[mcp.Content]*kept // of what is gone, which may be somewhere else
	if len(gone) > 0 {
		places = make(map[mcp.Content]*kept, len(gone))
		for _, k := range gone {
			e.size -= len(k.encoded)
			if k.first != nil {
				places[k.first] = k
			}
		}
		e.kept = append(make([]*kept, 0, len(messages)+len(messages)/4), e.kept[:n]...)
	}
	for i := n; i < len(messages); i++ {
		first := firstOf(messages[i].Content)
		k := places[first]
		if k != nil && k.is(&messages[i]) {
			delete(places, first)
			e.size += len(k.encoded)
		} else {
			k = keep(&messages[i])
		}
		e.kept = append(e.kept, k)
	}
}

// check is [Request.Validate] for messages that follow those that were checked before.
func (e *Encodings) check(messages []Message) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.align(messages)
	c := checking{ids: e.ids, known: e.kept}
	if c.ids == nil {
		c.ids = make(map[string]bool)
	}
	from := e.valid
	e.valid, e.ids = 0, nil
	if err := c.messages(messages, from); err != nil {
		return err
	}
	e.valid, e.ids, e.looked = len(messages), c.ids, &messages[0]
	return nil
}
